package report

import (
	"context"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
)

const (
	heartbeatEvery = 30 * time.Second // until the cloud tells another interval
	firstRetry     = 500 * time.Millisecond
	lastRetry      = 30 * time.Second

	leftoversTimeout = 30 * time.Second
)

// Run delivers reports and sends heartbeats until ctx is done. A start that the
// cloud refuses for good is passed to refused: that browser has no slot and has
// to go.
//
// What an earlier boot left is tried first: the new boot's first heartbeat makes
// an end of that boot's sessions, and one whose start had not been told would
// never be heard of.
func (r *Reporter) Run(ctx context.Context, refused func(sessionID uuid.UUID)) {
	r.tellLeftovers(ctx)
	var running sync.WaitGroup
	running.Go(func() { r.deliver(ctx, refused) })
	running.Go(func() { r.own.beat(ctx) })
	running.Go(func() { r.callers.beat(ctx) })
	running.Wait()
}

// Flush delivers what waits, once, before the worker stops. What the cloud does
// not take stays in the journal for the next boot.
func (r *Reporter) Flush(ctx context.Context) { r.pass(ctx, func(uuid.UUID) {}) }

func (r *Reporter) deliver(ctx context.Context, refused func(uuid.UUID)) {
	pause := retries()
	for {
		var again <-chan time.Time
		if r.pass(ctx, refused) {
			pause.Reset()
		} else {
			again = time.After(pause.NextBackOff())
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-r.journal.wake:
			if again != nil { // the cloud is away: new reports don't hurry it
				select {
				case <-ctx.Done():
					return
				case <-again:
				}
			}
		}
	}
}

func retries() *backoff.ExponentialBackOff {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstRetry, lastRetry
	return pause
}

// pass tries everything that waits, in order, and stops at the first report
// that the cloud cannot take now; then it returns false, and that report goes
// to the end of the line. One goroutine at a time does, or both would tell the
// same.
func (r *Reporter) pass(ctx context.Context, refused func(uuid.UUID)) bool {
	select {
	case r.passing <- struct{}{}:
		defer func() { <-r.passing }()
	case <-ctx.Done():
		return false
	}
	return r.tell(ctx, r.journal.waiting(), refused)
}

// tellLeftovers tries what an earlier boot left, for a bounded time.
func (r *Reporter) tellLeftovers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leftoversTimeout)
	defer cancel()
	r.tell(ctx, r.journal.leftovers(), func(uuid.UUID) {})
}

func (r *Reporter) tell(ctx context.Context, waiting []entry, refused func(uuid.UUID)) bool {
	for _, e := range waiting {
		if e.Start != nil && !r.tellStart(ctx, e, refused) {
			return false
		}
		if e.End != nil && !r.tellEnd(ctx, *e.End) {
			return false
		}
	}
	return true
}

func (r *Reporter) tellStart(ctx context.Context, e entry, refused func(uuid.UUID)) bool {
	err := r.cloud.Start(ctx, *e.Start)
	if err != nil && !final(err) {
		r.logger.DebugContext(ctx, "a start still waits", "sessionId", e.session(), "error", err)
		r.journal.postpone(e.session())
		return false
	}
	if fault.Is(err, fault.PaymentRequired) && e.End == nil {
		// Its reservation has lapsed and no slot is free. What runs is not ended for
		// that (specification 3.2): the next heartbeat has it counted, and then this
		// is tried again.
		r.logger.WarnContext(ctx, "no slot is free for a session that runs", "sessionId", e.session(), "error", err)
		return true
	}
	if err == nil {
		r.line(e.key()).unheard.add(e.session())
	} else {
		r.logger.ErrorContext(ctx, "the cloud refused a start", "sessionId", e.session(), "error", err)
		if e.Fresh && e.End == nil {
			if !ofKey(err) {
				refused(e.session())
			}
		} else {
			r.setAside("start", entry{Start: e.Start}, err)
		}
	}
	r.toldLogged(e.session(), true, false)
	return true
}

// ofKey reports whether it is a caller's key that was refused: that stops
// launches, and no session that runs (specification 3.2).
func ofKey(err error) bool {
	return fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.Forbidden)
}

func (r *Reporter) tellEnd(ctx context.Context, end End) bool {
	err := r.cloud.Finish(ctx, end)
	if err != nil && !final(err) {
		r.logger.DebugContext(ctx, "an end still waits", "sessionId", end.SessionID, "error", err)
		r.journal.postpone(end.SessionID)
		return false
	}
	if err != nil {
		r.logger.ErrorContext(ctx, "the cloud refused an end", "sessionId", end.SessionID, "error", err)
		r.setAside("end", entry{End: &end}, err)
	}
	r.toldLogged(end.SessionID, false, true)
	return true
}

// setAside keeps a report that the cloud has refused for good, unless it refused the
// key, or knows nothing of a launch that failed: then there is nothing to correct.
func (r *Reporter) setAside(what string, e entry, refusal error) {
	if ofKey(refusal) || e.End != nil && e.End.Reason == string(session.Unknown) && fault.Is(refusal, fault.NotFound) {
		return
	}
	if err := r.journal.reject(what, e); err != nil {
		r.logger.Error("a refused report is lost", "sessionId", e.session(), "error", err)
	}
}

func (r *Reporter) toldLogged(id uuid.UUID, start, end bool) {
	if err := r.journal.told(id, start, end); err != nil {
		r.logger.Error("the journal of reports", "sessionId", id, "error", err)
	}
}
