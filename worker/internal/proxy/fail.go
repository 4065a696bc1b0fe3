package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// failPlain answers for an http URL that could not be fetched. Without an
// upstream there is no answer: the connection ends, so that the browser has an
// error, as it would have without a Forwarder, and not a page.
func (f *Forwarder) failPlain(w http.ResponseWriter, r *http.Request, by outbound, err error) {
	if _, direct := by.(direct); direct && !errors.Is(err, ErrDenied) {
		f.log.Debug("no answer from the destination", "error", err)
		panic(http.ErrAbortHandler)
	}
	f.fail(w, r.Host, err)
}

// fail answers for a way that did not lead there. The status is never 407, at
// which the browser would ask its user for a password; the text tells no
// addresses, since pages can read it.
func (f *Forwarder) fail(w http.ResponseWriter, host string, err error) {
	upstream := errors.Is(err, ErrUnreachable) || errors.Is(err, ErrCredentials)
	if errors.Is(err, ErrDenied) && !upstream {
		f.deny(w, host)
		return
	}
	status, text := http.StatusBadGateway, "The way to the destination failed."
	var refused *refusedError
	switch {
	case errors.Is(err, ErrCredentials):
		text = "The upstream proxy refused the credentials."
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		status, text = http.StatusGatewayTimeout, "There was no answer in time."
	case errors.Is(err, ErrUnreachable):
		text = "The upstream proxy cannot be reached."
	case errors.As(err, &refused):
		text = "The upstream proxy opened no tunnel: it answered " + refused.answer + "."
	}
	level := slog.LevelDebug
	if upstream && !errors.Is(err, context.Canceled) {
		f.upstreamWarned.Do(func() { level = slog.LevelWarn })
	}
	f.log.Log(context.Background(), level, "no way to the destination", "error", err)
	http.Error(w, text, status)
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// denials of one Forwarder. The first is logged as a warning.
type denials struct {
	count atomic.Int64
	once  sync.Once
}

// Denylist returns how many requests the EgressPolicy has denied so far.
func (f *Forwarder) Denied() int64 { return f.denied.count.Load() }

func (f *Forwarder) deny(w http.ResponseWriter, host string) {
	f.denied.count.Add(1)
	f.denied.once.Do(func() { f.log.Warn("a browser asked for a host that is denied", "host", host) })
	http.Error(w, host+" is denied: the policy of this worker (DENIED_HOSTS, ALLOWED_HOSTS) keeps browsers from it.", http.StatusForbidden)
}
