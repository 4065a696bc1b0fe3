package browser

import (
	"context"
	"net"
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
		<-b.proc.died
		return
	}
	ticker := time.NewTicker(max(timeout/maxMissedAnswers, time.Millisecond))
	defer ticker.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // cancels the pending call
	answers, pending, missed := make(chan error, 1), false, 0
	for {
		select {
		case <-b.proc.died:
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
			b.l.log.Error("browser does not answer; killing it", "launchId", b.LaunchID, "pid", b.proc.pid(), "timeout", timeout)
			b.unresponsive.Store(true)
			b.killNow()
			<-b.proc.died
			return
		}
		if !pending {
			pending = true
			go func() { answers <- b.conn.Probe(ctx) }()
		}
	}
}

// displayTimeout limits how long a display may take to answer.
const displayTimeout = 2 * time.Second

// displayLost reports whether the browser ended because its display did:
// Chromium then exits as if a client had closed it.
func (b *Browser) displayLost() bool {
	return b.display != nil && !b.exit.Killed && b.exit.Signal == 0 && !b.display.responds()
}

// responds reports whether the X server serves clients: it refuses a connection
// without the cookie at once.
func (d *display) responds() bool {
	select {
	case <-d.proc.died:
		return false
	default:
	}
	if socket, err := statSocket(socketPath(d.number)); err != nil || socket != d.socket {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), displayTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socketPath(d.number))
	if err != nil {
		return false
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(displayTimeout)); err != nil {
		return false
	}
	// The setup request of an X client: little-endian, version 11.0, no authorization.
	if _, err := conn.Write([]byte{'l', 0, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		return false
	}
	n, _ := conn.Read(make([]byte, 1))
	return n > 0
}
