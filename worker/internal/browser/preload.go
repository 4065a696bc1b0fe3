package browser

import (
	"context"
	"sync"
	"time"
)

// A warm browser reads its time zone when it has waited for timezonePreloadAfter. That
// loads what scripts need for time zones, about 11 ms of processor time, and a change of
// the zone takes 4 ms instead of 15. Browsers that are claimed earlier skip it: a busy
// host has other work.
const (
	timezonePreloadAfter   = time.Second
	timezonePreloadTimeout = 10 * time.Second
)

// preloadTimezone reads the time zone of the pages of a warm browser.
func (b *Browser) preloadTimezone() {
	ctx, cancel := context.WithTimeout(context.Background(), timezonePreloadTimeout)
	defer cancel()
	sessions, err := b.attachToPages(ctx)
	defer b.detach(ctx, sessions)
	if err == nil {
		_, err = b.timezonePages(ctx, sessions)
	}
	if err != nil {
		b.l.log.Debug("failed to preload time zone", "launchId", b.LaunchID, "error", err) // the browser may have ended
	}
}

// delayedTask runs a function once, after a delay, unless it is stopped before. The zero
// value has no function.
type delayedTask struct {
	mu      sync.Mutex
	stopped bool
	timer   *time.Timer   // nil if no function will run or has run
	ended   chan struct{} // closed when the function has returned
}

// start runs the function after the delay. It must be called at most once.
func (d *delayedTask) start(delay time.Duration, run func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return
	}
	ended := make(chan struct{})
	d.ended = ended
	d.timer = time.AfterFunc(delay, func() {
		defer close(ended)
		run()
	})
}

// stop prevents the function from running. If it runs, stop waits for its end.
func (d *delayedTask) stop(ctx context.Context) error {
	if d.prevent() {
		return nil
	}
	select {
	case <-d.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close is like stop, but waits without a limit.
func (d *delayedTask) close() {
	if !d.prevent() {
		<-d.ended
	}
}

// prevent stops the timer and reports whether the function will not run and has not run.
func (d *delayedTask) prevent() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	if d.timer != nil && d.timer.Stop() {
		d.timer = nil
	}
	return d.timer == nil
}
