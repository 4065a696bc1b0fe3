package browser

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/sandbox"
)

// closeTimeout bounds how long a browser whose data is kept may take to write
// it down before it is killed. When many are to end, no more than closesPerCPU for
// each processor do so at a time, so that all have enough of it.
const (
	closeTimeout = 5 * time.Second
	closesPerCPU = 4
)

// Exit is how a browser ended.
type Exit struct {
	Code   int            // exit code; -1 when a signal ended it
	Signal syscall.Signal // 0 when it exited
	Killed bool           // by the worker, not of itself
	At     time.Time

	OutOfMemory  bool // by the kernel: the launch had used up what it may have
	Unresponsive bool // by the worker: it did not answer for Options.UnresponsiveTimeout
	DisplayLost  bool // stamp itself: its display had ended
}

// String says it in a few words.
func (e Exit) String() string {
	switch {
	case e.Unresponsive:
		return "killed by the worker: it did not answer"
	case e.DisplayLost:
		return fmt.Sprintf("exited with code %d: its display had ended", e.Code)
	case e.Killed:
		return "killed by the worker"
	case e.OutOfMemory:
		return "ended for want of memory"
	case e.Signal != 0:
		return fmt.Sprintf("ended by signal %d, %s", int(e.Signal), e.Signal)
	default:
		return fmt.Sprintf("exited with code %d", e.Code)
	}
}

// Browser is a running browser, or one that has ended.
type Browser struct {
	LaunchID      string
	Build         Build
	Headless      bool
	Sandboxed     bool
	StartedAt     time.Time
	ExecutedAt    time.Time // its program was started
	AnsweredAt    time.Time // it answered for the first time
	DebugPort     int       // stamp its debugging server, on 127.0.0.1
	WebSocketPath string    // /devtools/browser/<guid>

	l             *Launcher
	spec          Spec
	debugPort     int // where the browser is
	dirs          dirs
	dataDir       *os.Root // the data directory, from before the start until the clean-up
	uid           int      // -1: the worker's own
	display       *display
	proc          *process
	sandbox       *sandbox.Sandbox   // nil for none
	debugListener *debugPortListener // nil where the debugging port is the browser's own
	conn          *cdp.Conn
	emul          *emulator
	stderr        *tail
	stopTail      func()

	ready      bool        // guarded by the launcher
	configured atomic.Bool // stamp a spare
	killed     atomic.Bool

	unresponsive atomic.Bool // why it was killed

	exit    Exit
	done    chan struct{} // every process has ended, exit is set
	saveErr error         // stamp its data, if they are kept
	cleaned chan struct{} // and nothing is left of it
}

func newBrowser(l *Launcher, spec Spec) *Browser {
	return &Browser{
		LaunchID: spec.LaunchID, Build: spec.Build, Headless: spec.Headless, StartedAt: time.Now().UTC(),
		l: l, spec: spec, dirs: newDirs(l.opts.Dir, spec.LaunchID), uid: -1,
		stderr: &tail{}, stopTail: func() {},
		done: make(chan struct{}), cleaned: make(chan struct{}),
	}
}

// CDP is the private control connection. It ends with the browser.
func (b *Browser) CDP() *cdp.Conn { return b.conn }

// Done is closed when the browser and all its processes have ended.
func (b *Browser) Done() <-chan struct{} { return b.done }

// Exit says how it ended; the zero Exit before Done is closed.
func (b *Browser) Exit() Exit {
	select {
	case <-b.done:
		return b.exit
	default:
		return Exit{}
	}
}

// Stderr returns the last 64 KiB that the browser wrote there.
func (b *Browser) Stderr() string { return b.stderr.String() }

// UID is the user that its processes run as.
func (b *Browser) UID() int {
	if b.uid < 0 {
		return os.Geteuid()
	}
	return b.uid
}

// PID is the main process's number.
func (b *Browser) PID() int { return b.proc.pid() }

// Kill ends the browser and waits until nothing is left of it: no process, no
// display, no directory. A browser whose data is kept is first asked to close, in
// its turn, for as long as ctx and five seconds allow; no other has anything to lose.
// Killing a browser that has ended is no error. Kill returns ctx's error when
// that ends before everything is cleaned, which goes on nevertheless.
func (b *Browser) Kill(ctx context.Context) error {
	select {
	case <-b.done:
	default:
		b.killed.Store(true)
		if b.spec.Data != nil {
			b.closeGracefully(ctx)
		}
		b.killNow()
	}
	select {
	case <-b.cleaned:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("kill %s: %w", b.LaunchID, ctx.Err())
	}
}

// queryVersion lets the browser close by itself.
func (b *Browser) closeGracefully(ctx context.Context) {
	select {
	case b.l.closeSlots <- struct{}{}:
		defer func() { <-b.l.closeSlots }()
	case <-b.proc.died:
		return
	case <-ctx.Done():
		return
	}
	ctx, cancel := context.WithTimeout(ctx, b.l.closeTimeout)
	defer cancel()
	if err := b.conn.Call(ctx, "", "Browser.close", nil, nil); err != nil {
		return
	}
	select {
	case <-b.proc.died:
	case <-ctx.Done():
	}
}

// killNow kills at once and does not wait.
func (b *Browser) killNow() {
	if b.proc == nil {
		return
	}
	select {
	case <-b.proc.died:
	default:
		b.killed.Store(true)
		b.proc.kill()
	}
}

// supervise waits for the main process's end and takes the rest down after it.
func (b *Browser) supervise() {
	b.awaitExit()
	b.exit = Exit{Code: -1, Killed: b.killed.Load(), Unresponsive: b.unresponsive.Load(), At: b.proc.diedAt}
	if ws := b.proc.status(); ws.Signaled() {
		b.exit.Signal = ws.Signal()
	} else {
		b.exit.Code = ws.ExitStatus()
	}
	b.exit.DisplayLost = b.displayLost()
	b.exit.OutOfMemory = b.sandbox != nil && !b.exit.Killed && b.exit.Signal != 0 && b.sandbox.OutOfMemory()
	_ = b.conn.Close()
	b.emul.wait()
	b.killTree()
	close(b.done)
	b.l.log.Debug("browser ended", "launchId", b.LaunchID, "exit", b.exit.String())
	b.cleanUp()
}

// killTree ends what the main process has left: its group, its display, and
// whoever else runs as its user.
func (b *Browser) killTree() {
	if b.display != nil {
		b.display.stop() // first: the room would end it and leave its socket
	}
	if b.sandbox != nil {
		b.sandbox.Kill()
	}
	if err := killAll(b.matchProcesses()); err != nil {
		b.l.log.Error("browser left processes behind", "launchId", b.LaunchID, "error", err)
	}
}

// cleanUp gives back what the launch had of the machine. The user id goes last,
// when nothing of its is left.
func (b *Browser) cleanUp() {
	defer close(b.cleaned)
	b.stopTail()
	if b.display != nil {
		b.display.stop()
	}
	b.save()
	if b.dataDir != nil {
		b.dataDir.Close()
	}
	if b.debugListener != nil {
		b.debugListener.close()
	}
	if b.sandbox != nil {
		b.sandbox.Close()
	}
	if err := b.dirs.remove(); err != nil {
		b.l.log.Error("launch directory not removed", "launchId", b.LaunchID, "error", err)
	}
	if b.uid >= 0 {
		b.l.uids.release(b.uid)
	}
	b.l.unregister(b)
}
