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
	defaultHeartbeatInterval = 30 * time.Second // until the cloud tells another interval
	initialRetry             = 500 * time.Millisecond
	maxRetry                 = 30 * time.Second

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
	r.deliverLeftovers(ctx)
	var running sync.WaitGroup
	running.Go(func() { r.deliverLoop(ctx, refused) })
	running.Go(func() { r.own.run(ctx) })
	running.Go(func() { r.callers.run(ctx) })
	running.Wait()
}

// Flush delivers what waits, once, before the worker stops. What the cloud does
// not take stays in the journal for the next boot.
func (r *Reporter) Flush(ctx context.Context) { r.deliverPending(ctx, func(uuid.UUID) {}) }

func (r *Reporter) deliverLoop(ctx context.Context, refused func(uuid.UUID)) {
	pause := newBackoff()
	for {
		var again <-chan time.Time
		if r.deliverPending(ctx, refused) {
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

func newBackoff() *backoff.ExponentialBackOff {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = initialRetry, maxRetry
	return pause
}

// deliverPending tries everything that waits, in order, and stops at the first report
// that the cloud cannot take now; then it returns false, and that report goes
// to the end of the line. One goroutine at a time does, or both would tell the
// same.
func (r *Reporter) deliverPending(ctx context.Context, refused func(uuid.UUID)) bool {
	select {
	case r.delivering <- struct{}{}:
		defer func() { <-r.delivering }()
	case <-ctx.Done():
		return false
	}
	return r.deliverEntries(ctx, r.journal.pending(), refused)
}

// deliverLeftovers tries what an earlier boot left, for a bounded time.
func (r *Reporter) deliverLeftovers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leftoversTimeout)
	defer cancel()
	r.deliverEntries(ctx, r.journal.leftovers(), func(uuid.UUID) {})
}

func (r *Reporter) deliverEntries(ctx context.Context, waiting []entry, refused func(uuid.UUID)) bool {
	for _, e := range waiting {
		if e.Start != nil && !r.deliverStart(ctx, e, refused) {
			return false
		}
		if e.End != nil && !r.deliverEnd(ctx, *e.End) {
			return false
		}
	}
	return true
}

func (r *Reporter) deliverStart(ctx context.Context, e entry, refused func(uuid.UUID)) bool {
	err := r.cloud.ReportStart(ctx, *e.Start)
	if err != nil && !isFinal(err) {
		r.logger.DebugContext(ctx, "a start still waits", "sessionId", e.session(), "error", err)
		r.journal.moveToBack(e.session())
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
		r.sender(e.key()).starts.add(e.session())
	} else {
		r.logger.ErrorContext(ctx, "the cloud refused a start", "sessionId", e.session(), "error", err)
		if e.EndIfRefused && e.End == nil {
			if !isKeyRefusal(err) {
				refused(e.session())
			}
		} else {
			r.setAside("start", entry{Start: e.Start}, err)
		}
	}
	r.markDelivered(e.session(), true, false)
	return true
}

// isKeyRefusal reports whether it is a caller's key that was refused: that stops
// launches, and no session that runs (specification 3.2).
func isKeyRefusal(err error) bool {
	return fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.Forbidden)
}

func (r *Reporter) deliverEnd(ctx context.Context, end End) bool {
	err := r.cloud.ReportEnd(ctx, end)
	if err != nil && !isFinal(err) {
		r.logger.DebugContext(ctx, "an end still waits", "sessionId", end.SessionID, "error", err)
		r.journal.moveToBack(end.SessionID)
		return false
	}
	if err != nil {
		r.logger.ErrorContext(ctx, "the cloud refused an end", "sessionId", end.SessionID, "error", err)
		r.setAside("end", entry{End: &end}, err)
	}
	r.markDelivered(end.SessionID, false, true)
	return true
}

// setAside keeps a report that the cloud has refused for good, unless it refused the
// key, or knows nothing of a launch that failed: then there is nothing to correct.
func (r *Reporter) setAside(what string, e entry, refusal error) {
	if isKeyRefusal(refusal) || e.End != nil && e.End.Reason == string(session.Unknown) && fault.Is(refusal, fault.NotFound) {
		return
	}
	if err := r.journal.reject(what, e); err != nil {
		r.logger.Error("a refused report is lost", "sessionId", e.session(), "error", err)
	}
}

func (r *Reporter) markDelivered(id uuid.UUID, start, end bool) {
	if err := r.journal.markDelivered(id, start, end); err != nil {
		r.logger.Error("the journal of reports", "sessionId", id, "error", err)
	}
}
