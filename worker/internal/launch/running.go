package launch

import (
	"time"

	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/session"
)

// running is a browser with what its end needs to know.
type running struct {
	browser  *browser.Browser
	session  session.Session
	lifetime time.Duration // 0 is no limit
	held     held

	over   chan struct{}          // closed when it has ended and the books say so
	kill   chan session.EndReason // asks the watcher; the first reason counts
	reason session.EndReason      // why the worker ended it, if it did; the watcher's
}

// askToEnd has the watcher end the browser.
func (r *running) askToEnd(reason session.EndReason) {
	select {
	case r.kill <- reason:
	default:
	}
}

// end says how a browser that is done ended.
func (r *running) end(now time.Time) session.End {
	exit := r.browser.Exit()
	if r.reason != "" && exit.Killed {
		return session.End{At: now, Status: session.Killed, Reason: r.reason}
	}
	code := exit.Code
	if exit.Signal != 0 {
		code = -int(exit.Signal)
	}
	if code == 0 {
		return session.End{At: now, Status: session.Exited, Reason: session.ClientClose, ExitCode: &code}
	}
	return session.End{At: now, Status: session.Exited, Reason: session.Crash, ExitCode: &code}
}
