package httpd

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/browser-svc/svc/shared/fault"
)

// Reason is why a program takes no work now.
type Reason struct {
	Check   string // what was checked, such as database
	Code    string // for programs, such as database_read_only
	Message string // for people: what is wrong and, where they can do something, what
}

// Draining is the check, and the code, of a program that stops taking work.
const Draining = "draining"

// retryReadiness is when a program that is not ready may be asked again.
const retryReadiness = 2 * time.Second

// Check is one condition of readiness. Every probe asks it: what costs a round
// trip is remembered, see CachedCheck.
type Check func(ctx context.Context) []Reason

// Readiness tells whether a program takes work: the answer to GET /readyz, and
// the only place that other answers take it from.
type Readiness struct {
	logger   *slog.Logger
	checks   []Check
	shutdown atomic.Bool

	mu        sync.Mutex
	lastCodes string // of the last answer, for the log
}

// NewReadiness returns the readiness of a program with these checks, in the
// order in which their reasons are told. A nil logger discards.
func NewReadiness(logger *slog.Logger, checks ...Check) *Readiness {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Readiness{logger: logger, checks: checks}
}

// Reasons are all that keep the program from taking work; none when it is ready.
func (r *Readiness) Reasons(ctx context.Context) []Reason {
	var found []Reason
	for _, check := range r.checks {
		found = append(found, check(ctx)...)
	}
	if !r.shutdown.Load() {
		return found
	}
	found = slices.DeleteFunc(slices.Clone(found), func(reason Reason) bool { return reason.Check == Draining })
	return append([]Reason{{Draining, Draining, "This service is shutting down."}}, found...)
}

// Err is nil when the program is ready, else a *fault.Error of kind Unavailable
// with a detail for each reason. What changes is logged.
func (r *Readiness) Err(ctx context.Context) error {
	reasons := r.Reasons(ctx)
	r.log(ctx, reasons)
	if len(reasons) == 0 {
		return nil
	}
	failed := fault.New(fault.Unavailable, "Not ready. "+reasons[0].Message)
	failed.RetryAfter = retryReadiness
	for _, reason := range reasons {
		failed.Details = append(failed.Details, fault.Detail{
			Field: reason.Check, Code: fault.Custom, Message: reason.Message, Constraint: map[string]any{"reason": reason.Code},
		})
	}
	return failed
}

func (r *Readiness) log(ctx context.Context, reasons []Reason) {
	names := make([]string, len(reasons))
	for i, reason := range reasons {
		names[i] = reason.Code
	}
	codes := strings.Join(names, " ")
	r.mu.Lock()
	defer r.mu.Unlock()
	switch codes {
	case r.lastCodes:
	case "":
		r.logger.InfoContext(ctx, "ready again")
	default:
		r.logger.WarnContext(ctx, "not ready", "reasons", codes)
	}
	r.lastCodes = codes
}

// Shutdown makes the program unready for good, and returns after delay, in which
// it goes on serving: load balancers notice meanwhile, and no request meets a
// closed port. It returns earlier when done is closed, which may be nil.
func (r *Readiness) Shutdown(delay time.Duration, done <-chan struct{}) {
	r.shutdown.Store(true)
	if delay <= 0 {
		return
	}
	r.logger.Info("shutting down: requests are served until load balancers have noticed", "delay", delay)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-done:
	}
}

// CachedCheck asks check at most once in period, however many probes come, and
// gives it until timeout, also when the probe that asked has left.
func CachedCheck(period, timeout time.Duration, check Check) Check {
	turn := make(chan struct{}, 1) // taken while it is asked: the others wait for the answer
	var at time.Time
	var last []Reason
	return func(ctx context.Context) []Reason {
		turn <- struct{}{}
		defer func() { <-turn }()
		if !at.IsZero() && time.Since(at) < period {
			return last
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		last = check(ctx)
		at = time.Now()
		return last
	}
}
