package httpd

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/browser-svc/svc/shared/fault"
)

const (
	repeatWindow = time.Minute // in which equal refusals are counted
	maxLogged    = 10          // log lines for equal refusals in a window
	maxKeys      = 1000        // counted at once; refusals beyond are always logged
)

// refusalLimiter limits the log lines for refused requests: it logs the first
// equal refusals of a client one by one, and then a summary with their number, so
// that a client cannot fill the log.
type refusalLimiter struct {
	logger *slog.Logger
	due    atomic.Int64 // time of the next summary in Unix nanoseconds; 0 for none

	mu     sync.Mutex
	counts map[refusalKey]*refusalCount
}

// refusalKey identifies equal refusals.
type refusalKey struct {
	route, address string
	kind           fault.Kind
}

type refusalCount struct {
	since time.Time
	total int
}

func newRefusalLimiter(logger *slog.Logger) *refusalLimiter {
	return &refusalLimiter{logger: logger, counts: map[refusalKey]*refusalCount{}}
}

// shouldLog reports whether to log this failed request on its own.
func (r *refusalLimiter) shouldLog(l refusalKey, now time.Time) bool {
	switch l.kind {
	case fault.Unauthenticated, fault.Forbidden, fault.RateLimited, fault.Unavailable:
	default:
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	count := r.counts[l]
	if count == nil {
		if len(r.counts) >= maxKeys {
			return true
		}
		count = &refusalCount{since: now}
		r.counts[l] = count
		r.due.CompareAndSwap(0, now.Add(repeatWindow).UnixNano())
	}
	count.total++
	return count.total <= maxLogged
}

// summarize logs the summaries that are due. Each request calls it.
func (r *refusalLimiter) summarize(ctx context.Context, now time.Time) {
	due := r.due.Load()
	if due == 0 || now.UnixNano() < due || !r.due.CompareAndSwap(due, 0) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var next time.Time
	for l, count := range r.counts {
		end := count.since.Add(repeatWindow)
		if now.Before(end) {
			if next.IsZero() || end.Before(next) {
				next = end
			}
			continue
		}
		delete(r.counts, l)
		if count.total > maxLogged {
			r.logger.LogAttrs(ctx, slog.LevelWarn, "repeated refusals not logged individually", slog.String("route", l.route),
				slog.String("remoteIp", l.address), slog.String("code", string(l.kind.Code())), slog.Int("status", l.kind.Status()),
				slog.Int("notLogged", count.total-maxLogged), slog.Time("since", count.since))
		}
	}
	if !next.IsZero() {
		r.due.CompareAndSwap(0, next.UnixNano())
	}
}
