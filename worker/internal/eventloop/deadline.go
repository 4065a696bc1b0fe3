package eventloop

import (
	"os"
	"sync"
	"time"
)

// deadline is a time after which calls fail.
type deadline struct {
	mu     *sync.Mutex
	timer  *time.Timer
	cancel chan struct{} // closed when the time has passed
}

func newDeadline() deadline { return deadline{mu: new(sync.Mutex), cancel: make(chan struct{})} }

// set changes the time; zero means none. A time in the past takes effect at once.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.cancel // the timer is closing it
	}
	d.timer = nil
	isPassed := d.isPassed()
	left := time.Until(t)
	switch {
	case !t.IsZero() && left <= 0:
		if !isPassed {
			close(d.cancel)
		}
		return
	case isPassed:
		d.cancel = make(chan struct{})
	}
	if !t.IsZero() {
		cancel := d.cancel
		d.timer = time.AfterFunc(left, func() { close(cancel) })
	}
}

// isPassed reports whether cancel is closed. The caller holds mu.
func (d *deadline) isPassed() bool {
	select {
	case <-d.cancel:
		return true
	default:
		return false
	}
}

// passed returns a channel that is closed when the time has passed.
func (d *deadline) passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cancel
}

// err returns os.ErrDeadlineExceeded when the time has passed.
func (d *deadline) err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isPassed() {
		return os.ErrDeadlineExceeded
	}
	return nil
}
