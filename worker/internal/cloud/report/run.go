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
	defaultHeartbeatInterval = 30 * time.Second // until the cloud sends another interval
	initialRetry             = 500 * time.Millisecond
	maxRetry                 = 30 * time.Second

	leftoversTimeout = 30 * time.Second
)

// Run delivers reports and sends heartbeats until ctx is done. A late refusal of a
// start does not end the session, because running sessions continue in any case
// (specification 3.2): the heartbeats charge it.
//
// Reports of an earlier boot are delivered first. The first heartbeat of the
// new boot ends that boot's sessions, and a session whose start was never
// reported would be lost.
func (r *Reporter) Run(ctx context.Context) {
	r.deliverLeftovers(ctx)
	var running sync.WaitGroup
	running.Go(func() { r.deliverLoop(ctx) })
	running.Go(func() { r.own.run(ctx) })
	running.Go(func() { r.callers.run(ctx) })
	running.Wait()
}

// Flush delivers the pending reports once, before the worker stops. Undelivered
// reports stay in the journal for the next boot.
func (r *Reporter) Flush(ctx context.Context) { r.deliverPending(ctx) }

func (r *Reporter) deliverLoop(ctx context.Context) {
	pause := newBackoff()
	for {
		var again <-chan time.Time
		if r.deliverPending(ctx) {
			pause.Reset()
		} else {
			again = time.After(pause.NextBackOff())
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-r.journal.wake:
			if again != nil { // new reports do not shorten the backoff
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

// deliverPending delivers all pending reports.
func (r *Reporter) deliverPending(ctx context.Context) bool {
	return r.deliverEntries(ctx, r.journal.pending)
}

// deliverLeftovers delivers the reports of an earlier boot, within a timeout.
func (r *Reporter) deliverLeftovers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leftoversTimeout)
	defer cancel()
	r.deliverEntries(ctx, r.journal.leftovers)
}

// deliverEntries delivers reports in order. It stops at the first report that the cloud
// cannot take now, moves that report to the end and returns false. Only one goroutine
// delivers at a time, so no report is sent twice.
func (r *Reporter) deliverEntries(ctx context.Context, waiting func() []entry) bool {
	select {
	case r.delivering <- struct{}{}:
		defer func() { <-r.delivering }()
	case <-ctx.Done():
		return false
	}
	for _, e := range waiting() {
		if e.Start != nil && !r.deliverStart(ctx, e) {
			return false
		}
		if e.Commit != nil && !r.deliverCommit(ctx, *e.Commit) {
			return false
		}
		if e.End != nil && !r.deliverEnd(ctx, *e.End) {
			return false
		}
	}
	return true
}

func (r *Reporter) deliverStart(ctx context.Context, e entry) bool {
	err := r.cloud.ReportStart(ctx, *e.Start)
	if err != nil && !isFinal(err) {
		r.logger.DebugContext(ctx, "failed to deliver a start", "sessionId", e.session(), "error", err)
		r.journal.moveToBack(e.session())
		return false
	}
	if fault.Is(err, fault.PaymentRequired) && e.End == nil {
		// The reservation expired and no slot is free. The session is not ended
		// (specification 3.2): the next heartbeat counts it, and the start is retried.
		r.logger.WarnContext(ctx, "no slot for a running session", "sessionId", e.session(), "error", err)
		return true
	}
	switch {
	case err == nil:
		r.sender(e.key()).starts.add(e.session())
	case e.Start.Change:
		r.logger.InfoContext(ctx, "the cloud refused a change of a session, which may have ended", "sessionId", e.session(), "error", err)
	default:
		r.logger.ErrorContext(ctx, "the cloud refused a start", "sessionId", e.session(), "error", err)
		r.setAside("start", entry{Start: e.Start}, err)
		if e.End == nil && !isKeyRefusal(err) {
			r.addRefused(e.session())
		}
	}
	r.markDelivered(entry{Start: e.Start})
	return true
}

// addRefused records that the cloud finally refused the start of a running
// session. Otherwise it would be reported again after each heartbeat.
func (r *Reporter) addRefused(id uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusedStarts[id] = true
}

// isRefused reports whether the cloud finally refused the start of a session.
func (r *Reporter) isRefused(id uuid.UUID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refusedStarts[id]
}

// isKeyRefusal reports whether the cloud refused a caller's key. That prevents
// launches but does not end running sessions (specification 3.2).
func isKeyRefusal(err error) bool {
	return fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.Forbidden)
}

func (r *Reporter) deliverEnd(ctx context.Context, end End) bool {
	err := r.cloud.ReportEnd(ctx, end)
	if err != nil && !isFinal(err) {
		r.logger.DebugContext(ctx, "failed to deliver an end", "sessionId", end.SessionID, "error", err)
		r.journal.moveToBack(end.SessionID)
		return false
	}
	if err != nil {
		r.logger.ErrorContext(ctx, "the cloud refused an end", "sessionId", end.SessionID, "error", err)
		r.setAside("end", entry{End: &end}, err)
	}
	r.markDelivered(entry{End: &end})
	return true
}

// setAside keeps a report that the cloud refused, unless the key was refused or
// a failed launch is unknown to the cloud: then there is nothing to correct.
func (r *Reporter) setAside(what string, e entry, refusal error) {
	if isKeyRefusal(refusal) || e.End != nil && e.End.Reason == string(session.Unknown) && fault.Is(refusal, fault.NotFound) {
		return
	}
	if err := r.journal.reject(what, e); err != nil {
		r.logger.Error("failed to save a refused report", "sessionId", e.session(), "error", err)
	}
}

func (r *Reporter) markDelivered(e entry) {
	if err := r.journal.markDelivered(e); err != nil {
		r.logger.Error("failed to update the report journal", "sessionId", e.session(), "error", err)
	}
}
