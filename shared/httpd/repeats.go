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
	repeatWindow = time.Minute // in which lines are alike
	maxRepeats   = 10          // lines that are written of those
	maxLines     = 1000        // that are told apart; all others are written
)

// repeats writes the first requests of a client that are refused alike, and then
// how many there were: nobody fills the log by asking for what is refused.
type repeats struct {
	logger *slog.Logger
	due    atomic.Int64 // when the next summary is, in Unix nanoseconds; 0 for never

	mu    sync.Mutex
	lines map[line]*count
}

// line is what requests have in common that are logged alike.
type line struct {
	route, address string
	kind           fault.Kind
}

type count struct {
	since time.Time
	all   int
}

func newRepeats(logger *slog.Logger) *repeats {
	return &repeats{logger: logger, lines: map[line]*count{}}
}

// writes reports whether a request that failed is logged by itself.
func (r *repeats) writes(l line, now time.Time) bool {
	switch l.kind {
	case fault.Unauthenticated, fault.Forbidden, fault.RateLimited, fault.Unavailable:
	default:
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.lines[l]
	if known == nil {
		if len(r.lines) >= maxLines {
			return true
		}
		known = &count{since: now}
		r.lines[l] = known
		r.due.CompareAndSwap(0, now.Add(repeatWindow).UnixNano())
	}
	known.all++
	return known.all <= maxRepeats
}

// summarize writes the summaries that are due. Each request calls it.
func (r *repeats) summarize(ctx context.Context, now time.Time) {
	due := r.due.Load()
	if due == 0 || now.UnixNano() < due || !r.due.CompareAndSwap(due, 0) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var next time.Time
	for l, known := range r.lines {
		end := known.since.Add(repeatWindow)
		if now.Before(end) {
			if next.IsZero() || end.Before(next) {
				next = end
			}
			continue
		}
		delete(r.lines, l)
		if known.all > maxRepeats {
			r.logger.LogAttrs(ctx, slog.LevelWarn, "repeated requests were not logged one by one", slog.String("route", l.route),
				slog.String("remoteIp", l.address), slog.String("code", string(l.kind.Code())), slog.Int("status", l.kind.Status()),
				slog.Int("notLogged", known.all-maxRepeats), slog.Time("since", known.since))
		}
	}
	if !next.IsZero() {
		r.due.CompareAndSwap(0, next.UnixNano())
	}
}
