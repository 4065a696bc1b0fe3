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

// Reason is one reason why a program is not ready.
type Reason struct {
	Check   string // the failed check, such as database
	Code    string // machine-readable, such as database_read_only
	Message string // human-readable: the problem and, if there is one, the remedy
}

// Draining is the check and the code of a program that shuts down.
const Draining = "draining"

// retryReadiness is the Retry-After of a failed readiness check.
const retryReadiness = 2 * time.Second

// Check is one condition of readiness. Every probe asks it: what costs a round
// trip is remembered, see Cache.
type Check func(ctx context.Context) []Reason

// Readiness reports whether a program accepts work. It answers GET /readyz.
type Readiness struct {
	logger   *slog.Logger
	checks   []Check
	shutdown atomic.Bool

	mu        sync.Mutex
	lastCodes string // of the last answer, for the log
}

// NewReadiness returns a Readiness with these checks. Reasons are reported in the
// order of the checks. A nil logger discards.
func NewReadiness(logger *slog.Logger, checks ...Check) *Readiness {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Readiness{logger: logger, checks: checks}
}

// Reasons returns all reasons why the program is not ready; empty if it is ready.
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

// Err returns nil if the program is ready, and otherwise a *fault.Error of kind
// Unavailable with a detail for each reason. It logs changes.
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

// Shutdown makes the program permanently unready and returns after delay. The
// program keeps serving during the delay, so that load balancers can stop sending
// requests. Shutdown returns early if done is closed; done may be nil.
func (r *Readiness) Shutdown(delay time.Duration, done <-chan struct{}) {
	r.shutdown.Store(true)
	if delay <= 0 {
		return
	}
	r.logger.Info("shutting down, serving requests until load balancers notice", "delay", delay)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-done:
	}
}
