package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/browser-svc/svc/shared/netrules"
)

// failPlain answers a failed request for an http URL. Without an upstream it aborts
// the connection, so that the browser shows a network error, as it would without a
// Forwarder, and not a page.
func (f *Forwarder) failPlain(w http.ResponseWriter, r *http.Request, out outbound, err error) {
	if _, direct := out.(direct); direct && !errors.Is(err, ErrDenied) {
		f.log.Debug("destination did not answer", "error", err)
		panic(http.ErrAbortHandler)
	}
	f.fail(w, r.Host, err)
}

// fail answers a request whose destination was not reached. The status is 407 only if
// the browser authenticates itself: it would otherwise ask its user for a password.
// The text contains no addresses, because pages can read it.
func (f *Forwarder) fail(w http.ResponseWriter, host string, err error) {
	if demand, ok := errors.AsType[*challengeError](err); ok {
		w.Header()[challengeHeader] = demand.challenges
		http.Error(w, "The upstream proxy requires credentials.", http.StatusProxyAuthRequired)
		return
	}
	if denied, ok := errors.AsType[*deniedError](err); ok {
		f.denyByRule(w, host, denied.Verdict)
		return
	}
	upstream := errors.Is(err, ErrUnreachable) || errors.Is(err, ErrCredentials)
	if errors.Is(err, ErrDenied) && !upstream {
		f.deny(w, host, &f.policy.denied.resolved)
		return
	}
	status, text := http.StatusBadGateway, "The connection to the destination failed."
	var refused *refusedError
	switch {
	case errors.Is(err, ErrCredentials):
		text = "The upstream proxy refused the credentials."
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		status, text = http.StatusGatewayTimeout, "The destination did not answer in time."
	case errors.Is(err, ErrUnreachable):
		text = "The upstream proxy cannot be reached."
	case errors.As(err, &refused):
		text = "The upstream proxy refused the tunnel. Its answer: " + refused.answer + "."
	}
	level := slog.LevelDebug
	if upstream && !errors.Is(err, context.Canceled) {
		f.upstreamWarned.Do(func() { level = slog.LevelWarn })
	}
	f.log.Log(context.Background(), level, "failed to reach destination", "error", err)
	http.Error(w, text, status)
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// denials counts the denied requests of one Forwarder. The first is logged as a
// warning.
type denials struct {
	count atomic.Int64
	once  sync.Once
}

// Denied returns the number of denied requests so far.
func (f *Forwarder) Denied() int64 { return f.denied.count.Load() }

// deny answers a denied request and counts it, also by the reason for all Forwarders.
func (f *Forwarder) deny(w http.ResponseWriter, host string, reason *atomic.Int64) {
	reason.Add(1)
	f.denied.count.Add(1)
	f.conns.usage.deny(host, netrules.Verdict{Denied: true, Level: "worker", Rule: "egress policy"})
	f.denied.once.Do(func() { f.log.Warn("browser requested denied host", "host", host) })
	http.Error(w, host+" is denied by the egress policy of this worker (DENIED_HOSTS, ALLOWED_HOSTS).", http.StatusForbidden)
}
