package report

import (
	"context"
	"math/rand/v2"
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
)

// Run delivers reports and sends heartbeats until ctx is done. A start that the
// cloud refuses for good is passed to refused: that browser has no slot and has
// to go.
func (r *Reporter) Run(ctx context.Context, refused func(sessionID uuid.UUID)) {
	var running sync.WaitGroup
	running.Go(func() { r.deliver(ctx, refused) })
	running.Go(func() { r.beat(ctx) })
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
// to the end of the line.
func (r *Reporter) pass(ctx context.Context, refused func(uuid.UUID)) bool {
	for _, e := range r.journal.waiting() {
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
	if err != nil {
		r.logger.ErrorContext(ctx, "the cloud refused a start", "sessionId", e.session(), "error", err)
		if e.Fresh && e.End == nil {
			refused(e.session())
		}
	}
	r.toldLogged(e.session(), true, false)
	return true
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
	}
	r.toldLogged(end.SessionID, false, true)
	return true
}

func (r *Reporter) toldLogged(id uuid.UUID, start, end bool) {
	if err := r.journal.told(id, start, end); err != nil {
		r.logger.Error("the journal of reports", "sessionId", id, "error", err)
	}
}

// beat sends heartbeats: one at once, which also releases what an earlier boot
// held, and then at the interval that the cloud asks for.
func (r *Reporter) beat(ctx context.Context) {
	pause := retries()
	every := heartbeatEvery
	for {
		wait := jitter(every)
		if next, err := r.heartbeat(ctx); err != nil {
			wait = min(pause.NextBackOff(), wait)
			r.logger.WarnContext(ctx, "heartbeat failed", "error", err, "retryIn", wait.Round(time.Millisecond))
		} else {
			pause.Reset()
			every = next
			wait = jitter(every)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// jitter spreads a fleet's heartbeats: a tenth either way.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()-0.5)*0.2*float64(d))
}

func (r *Reporter) heartbeat(ctx context.Context) (next time.Duration, err error) {
	sessions, seq := r.live.Live()
	ids := make([]uuid.UUID, len(sessions))
	for i, s := range sessions {
		ids[i] = s.ID
	}
	answer, err := r.cloud.Heartbeat(ctx, seq, ids)
	if err != nil {
		return 0, err
	}
	if !answer.Applied {
		r.logger.WarnContext(ctx, "the cloud knows a later heartbeat of this machine: is its id used twice?")
	}
	if len(answer.Released) > 0 {
		r.logger.InfoContext(ctx, "the cloud released sessions that no longer run here", "sessions", answer.Released)
	}
	r.tellAgain(ctx, sessions, answer.Unknown)
	r.journal.signal() // what was refused for want of a slot may be taken now
	next = heartbeatEvery
	if answer.NextSeconds > 0 {
		next = time.Duration(answer.NextSeconds) * time.Second
	}
	return next, nil
}

// tellAgain reports the start of sessions that run here and that the cloud does
// not know.
func (r *Reporter) tellAgain(ctx context.Context, live []session.Session, unknown []uuid.UUID) {
	for _, id := range unknown {
		for _, s := range live {
			if s.ID != id || r.journal.has(id) {
				continue
			}
			start := startOf(s)
			r.logger.WarnContext(ctx, "the cloud does not know a session that runs here", "sessionId", id)
			r.put(entry{Start: &start})
		}
	}
}
