package browser

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// freezer stops the processes of an unused browser, and continues them before
// the next use. A frozen browser needs no processor time, and its pages are paused.
type freezer struct {
	set    func(frozen bool) error
	busy   func() bool // the browser is unused, but must continue
	failed func(error)

	mu     sync.Mutex
	uses   int           // connections and calls that are open
	idle   time.Duration // without a use, before the browser is frozen; 0: never
	timer  *time.Timer   // of idle; nil before start
	frozen bool
	closed bool
}

// start freezes the browser after each time without a use.
func (f *freezer) start(idle time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if idle <= 0 || f.closed || f.timer != nil {
		return
	}
	f.idle, f.timer = idle, time.AfterFunc(idle, f.expire)
}

// hold continues the browser until release is called, which may be called repeatedly.
func (f *freezer) hold() (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uses++
	if f.timer != nil {
		f.timer.Stop()
	}
	f.setFrozen(false)
	return sync.OnceFunc(f.release)
}

func (f *freezer) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.uses--; f.uses == 0 && f.timer != nil && !f.closed {
		f.timer.Reset(f.idle)
	}
}

// expire freezes the browser at the end of its time without a use.
func (f *freezer) expire() {
	busy := f.busy()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.uses > 0 || f.closed:
	case busy:
		f.timer.Reset(f.idle)
	default:
		f.setFrozen(true)
	}
}

// setFrozen freezes or continues the browser. The caller holds the lock. After an error
// the next call tries again.
func (f *freezer) setFrozen(frozen bool) {
	if f.frozen == frozen {
		return
	}
	if err := f.set(frozen); err != nil {
		f.failed(err)
		return
	}
	f.frozen = frozen
}

// close continues the browser and never freezes it again.
func (f *freezer) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.timer != nil {
		f.timer.Stop()
	}
	f.setFrozen(false)
}

func (f *freezer) isFrozen() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.frozen
}

// ErrNoFreezing means that this host cannot freeze browsers; the error says why.
var ErrNoFreezing = errors.New("browser: browsers cannot be frozen")

// FreezeSupport returns why browsers are never frozen on this host, an ErrNoFreezing; nil
// if they can be.
func (l *Launcher) FreezeSupport() error {
	err := errors.New("launches are not isolated")
	if l.sandboxes != nil {
		err = l.sandboxes.manager.FreezeSupport()
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNoFreezing, err)
}

// newFreezer returns the freezer of a browser, which never freezes it before start.
func (b *Browser) newFreezer() *freezer {
	return &freezer{
		set:  func(frozen bool) error { return b.sandbox.SetFrozen(frozen) },
		busy: func() bool { return b.files != nil && b.files.Downloading() },
		failed: func(err error) {
			b.l.log.Error("failed to freeze or thaw a browser", "launchId", b.LaunchID, "error", err)
		},
	}
}

// startFreezing freezes the browser from now on when it is unused, if Options.FreezeIdle
// is set and this host can freeze browsers.
func (b *Browser) startFreezing() {
	if b.l.opts.FreezeIdle > 0 && b.canFreeze() {
		b.freezer.start(b.l.opts.FreezeIdle)
	}
}

// canFreeze reports whether the worker sees every connection to the browser and can
// freeze it.
func (b *Browser) canFreeze() bool { return b.hasOwnNetwork() && b.l.FreezeSupport() == nil }

// Hold continues the browser if it is frozen, and keeps it from being frozen until release
// is called. Calls on CDP and connections of Dial do the same by themselves.
func (b *Browser) Hold() (release func()) { return b.freezer.hold() }

// Frozen reports whether the browser is frozen.
func (b *Browser) Frozen() bool { return b.freezer.isFrozen() }
