package process

import (
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	tailSize = 64 << 10
	readSize = 1 << 10 // read buffer of each browser, which writes little
)

// Tail keeps the last bytes written to it.
type Tail struct {
	mu  sync.Mutex
	buf []byte
}

// Write implements io.Writer.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailSize; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

// String returns the buffered bytes.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}

// LastLines returns up to n of the last lines, for an error message.
func (t *Tail) LastLines(n int) string {
	lines := strings.Split(strings.TrimSpace(t.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// drainTimeout limits how long stop waits for a writer that outlives its
// process.
const drainTimeout = 100 * time.Millisecond

// Pipe copies what a process writes to a new pipe into the tail, until every
// writer has closed it. The process gets the returned file. After the process
// has ended, stop waits until everything is copied.
func (t *Tail) Pipe() (forProcess *os.File, stop func(), err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.CopyBuffer(t, struct{ io.Reader }{r}, make([]byte, readSize)) // hides os.File's WriterTo, which would allocate another buffer
		r.Close()
	}()
	return w, func() {
		_ = r.SetReadDeadline(time.Now().Add(drainTimeout))
		<-copied
	}, nil
}
