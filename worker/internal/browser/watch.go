package browser

import (
	"context"
	"time"
)

// maxMissedAnswers is how many answers in a row a browser may miss before it is
// killed. Ticks of the worker are counted instead of time: after the machine was
// suspended or the worker stopped, only one answer is missing.
const maxMissedAnswers = 6

// awaitExit waits for the main process's end, and kills a browser that stops
// answering on its control pipe. A busy or paused page does not matter: the
// browser's main process answers.
func (b *Browser) awaitExit() {
	timeout := b.l.opts.UnresponsiveTimeout
	if timeout <= 0 {
		<-b.proc.Died
		return
	}
	ticker := time.NewTicker(max(timeout/maxMissedAnswers, time.Millisecond))
	defer ticker.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // cancels the pending call
	answers, pending, missed := make(chan error, 1), false, 0
	for {
		select {
		case <-b.proc.Died:
			return
		case err := <-answers:
			pending, missed = false, missed+1
			if err == nil {
				missed = 0
			}
			continue
		case <-ticker.C:
		}
		if !b.l.isReady(b) || b.killed.Load() || b.freezer.isFrozen() { // launching and closing have their own timeouts
			missed = 0
			continue
		}
		if pending {
			missed++
		}
		if missed >= maxMissedAnswers {
			b.l.log.Error("browser does not answer; killing it", "launchId", b.LaunchID, "pid", b.proc.PID(), "timeout", timeout)
			b.unresponsive.Store(true)
			b.killNow()
			<-b.proc.Died
			return
		}
		if !pending {
			pending = true
			go func() { answers <- b.conn.Probe(ctx) }()
		}
	}
}

// displayLost reports whether the browser ended because its display did:
// Chromium then exits as if a client had closed it.
func (b *Browser) displayLost() bool {
	return b.display != nil && !b.exit.Killed && b.exit.Signal == 0 && !b.display.Responds()
}
