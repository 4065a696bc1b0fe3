package program

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// Progress shows the progress of a transfer: a progress bar on a terminal, and
// otherwise a line for each tenth.
type Progress struct {
	out      io.Writer
	label    string
	total    int64 // bytes
	terminal bool
	started  time.Time

	mu        sync.Mutex
	done      int64
	initial   int64 // done at the start
	drawn     time.Time
	lastTenth int64
}

const (
	barWidth       = 30
	redrawInterval = 100 * time.Millisecond
)

// NewProgress starts at done of total bytes.
func NewProgress(out io.Writer, label string, done, total int64) *Progress {
	p := &Progress{out: out, label: label, total: max(total, 1), terminal: isTerminal(out), started: time.Now(), done: done, initial: done}
	p.lastTenth = 10 * done / p.total
	return p
}

// Write counts the bytes. It never fails.
func (p *Progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += int64(len(b))
	p.show(false)
	return len(b), nil
}

// Restart resets the progress to done bytes.
func (p *Progress) Restart(done int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.initial, p.started, p.lastTenth = done, done, time.Now(), 10*done/p.total
}

// End draws the final state and ends the line. It must be the last call.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.show(true)
}

func (p *Progress) show(last bool) {
	if p.terminal {
		if !last && time.Since(p.drawn) < redrawInterval {
			return
		}
		p.drawn = time.Now()
		end := ""
		if last {
			end = "\n"
		}
		filled := int(min(p.done, p.total) * barWidth / p.total)
		bar := strings.Repeat("=", filled) + strings.Repeat(" ", barWidth-filled)
		_, _ = fmt.Fprintf(p.out, "\r%s [%s] %s\x1b[K%s", p.label, bar, p.state(), end)
		return
	}
	if tenth := 10 * p.done / p.total; tenth > p.lastTenth {
		p.lastTenth = tenth
		_, _ = fmt.Fprintf(p.out, "%s %s\n", p.label, p.state())
	}
}

// state is such as "40% of 120.0 MB, 12.1 MB/s".
func (p *Progress) state() string {
	speed := float64(p.done-p.initial) / max(time.Since(p.started).Seconds(), 0.001)
	return fmt.Sprintf("%d%% of %s, %s/s", 100*min(p.done, p.total)/p.total, Bytes(p.total), Bytes(int64(speed)))
}

// Bytes formats a size with decimal units, such as 1.5 GB.
func Bytes(n int64) string {
	const step = 1000
	if n < step {
		return fmt.Sprintf("%d B", n)
	}
	size, unit := float64(n)/step, 0
	for size >= step && unit < 3 {
		size, unit = size/step, unit+1
	}
	return fmt.Sprintf("%.1f %cB", size, "kMGT"[unit])
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
