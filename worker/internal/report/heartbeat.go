package report

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/session"
)

// firstHeartbeatDelay is how long after its start a session is first in a heartbeat:
// the cloud holds the slot of one that was in none for hours, also when the
// worker is gone. What starts within that time is in one heartbeat.
const firstHeartbeatDelay = 2 * time.Second

// maxHeartbeatRetry is the longest pause, half of it more or less, after a
// heartbeat with the worker's own key that failed.
const maxHeartbeatRetry = 6 * time.Second

// sender sends the heartbeats of the worker's own key, or those of its callers'
// keys, one after the other. However many these are, and however long the cloud
// is about them, the worker's own sessions do not lapse for it.
type heartbeatSender struct {
	r          *Reporter
	own        bool
	starts     *recentStarts
	unanswered []session.OrganizationKey // whose last heartbeat got no answer
}

func newHeartbeatSender(r *Reporter, own bool) *heartbeatSender {
	return &heartbeatSender{r: r, own: own, starts: newRecentStarts()}
}

// sender is the one that a session's heartbeats are sent in.
func (r *Reporter) sender(key session.OrganizationKey) *heartbeatSender {
	if r.callerKey(key).IsZero() {
		return r.own
	}
	return r.callers
}

// heartbeatAnswer sends heartbeats: at once, which also releases what an earlier boot
// held, and then at the interval that the cloud asks for, and soon after a start.
func (l *heartbeatSender) run(ctx context.Context) {
	pause := newBackoff()
	if l.own { // by these the worker finds out whether it could launch again
		pause.MaxInterval = maxHeartbeatRetry
	}
	every := defaultHeartbeatInterval
	for {
		wait := jitter(every)
		if next, err := l.sendHeartbeats(ctx); err != nil {
			wait = min(pause.NextBackOff(), wait)
			l.r.logger.WarnContext(ctx, "heartbeat failed", "error", err, "retryIn", wait.Round(time.Millisecond))
		} else {
			pause.Reset()
			every = next
			wait = jitter(every)
		}
		if !l.waitForRound(ctx, time.After(wait)) {
			return
		}
	}
}

// waitForRound waits for the next round, and sends the first heartbeats of what starts
// meanwhile. One that fails brings the round forward, which then keeps to its
// pauses. It returns false when ctx is done.
func (l *heartbeatSender) waitForRound(ctx context.Context, round <-chan time.Time) bool {
	var soon <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return false
		case <-round:
			return true
		case <-l.requested():
			return true
		case <-l.starts.wake:
			if soon == nil {
				soon = time.After(jitter(firstHeartbeatDelay))
			}
		case <-soon:
			soon = nil
			if l.sendFirstHeartbeats(ctx) != nil {
				return true
			}
		}
	}
}

// heartbeatRequested is where the worker's own heartbeat is asked for; nil in the other line.
func (l *heartbeatSender) requested() <-chan struct{} {
	if l.own {
		return l.r.heartbeatRequested
	}
	return nil
}

// jitter spreads a fleet's heartbeats: a tenth either way.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()-0.5)*0.2*float64(d))
}

// sendHeartbeats tells the organization of each key what runs here.
func (l *heartbeatSender) sendHeartbeats(ctx context.Context) (next time.Duration, err error) {
	l.starts.take()
	live, seq := l.r.snapshot()
	if l.own && l.r.identity.Key.IsZero() {
		return defaultHeartbeatInterval, l.r.cloud.Ping(ctx)
	}
	keys := l.keys(live)
	l.unanswered = slices.DeleteFunc(l.unanswered, func(key session.OrganizationKey) bool {
		return !slices.ContainsFunc(keys, key.Equal)
	})
	if next, err = l.sendAll(ctx, keys, live, seq); err == nil {
		l.r.journal.signal() // what was refused for want of a slot may be taken now
	}
	return next, err
}

// snapshot is what runs, with a number that grows.
func (r *Reporter) snapshot() (live []session.Session, seq int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	live, r.latest = r.live.Live()
	return live, r.latest
}

// superseded reports whether a later heartbeat than that of this number was sent.
func (r *Reporter) superseded(seq int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return seq < r.latest
}

// sendFirstHeartbeats tells what runs here to the organizations of the sessions that
// started since the last heartbeat and still run.
func (l *heartbeatSender) sendFirstHeartbeats(ctx context.Context) error {
	fresh := l.starts.take()
	live, seq := l.r.snapshot()
	var keys []session.OrganizationKey
	for _, s := range live {
		if key := l.r.callerKey(s.OrganizationKey); fresh[s.ID] && !slices.ContainsFunc(keys, key.Equal) {
			keys = append(keys, key)
		}
	}
	_, err := l.sendAll(ctx, keys, live, seq)
	return err
}

// sendAll sends a heartbeat with each key. Each lists everything: a heartbeat
// releases what it omits, and two keys may belong to one organization. The first
// error is returned. What the cloud answers to one key does not keep the others
// from being told; when it answers nothing, the round is over.
func (l *heartbeatSender) sendAll(ctx context.Context, keys []session.OrganizationKey, live []session.Session, seq int64) (next time.Duration, err error) {
	ids := make([]uuid.UUID, len(live))
	for i, s := range live {
		ids[i] = s.ID
	}
	next = defaultHeartbeatInterval
	for i, key := range l.unansweredLast(keys) {
		asked, failed := l.r.sendHeartbeat(ctx, key, seq, ids, live)
		l.unanswered = slices.DeleteFunc(l.unanswered, key.Equal)
		if failed != nil {
			if !isFinal(failed) && err == nil { // a caller's key that is refused is the caller's concern
				err = failed
			}
			if errors.Is(failed, ErrNoAnswer) {
				l.unanswered = append(l.unanswered, key)
				break // nobody else would get through
			}
			continue
		}
		if i == 0 || asked < next {
			next = asked
		}
	}
	return next, err
}

// unansweredLast puts the keys that got no answer behind the others: the cloud may be
// long about one organization alone.
func (l *heartbeatSender) unansweredLast(keys []session.OrganizationKey) []session.OrganizationKey {
	silence := func(key session.OrganizationKey) int { return slices.IndexFunc(l.unanswered, key.Equal) }
	return slices.SortedStableFunc(slices.Values(keys), func(a, b session.OrganizationKey) int {
		return cmp.Compare(silence(a), silence(b))
	})
}

// keys are those that heartbeats go out for: the worker's own, if it has one, or
// each of a caller's that a live or unreported session is charged to.
func (l *heartbeatSender) keys(live []session.Session) (found []session.OrganizationKey) {
	if l.own {
		if !l.r.identity.Key.IsZero() {
			found = append(found, session.OrganizationKey{})
		}
		return found
	}
	add := func(key session.OrganizationKey) {
		if key = l.r.callerKey(key); !key.IsZero() && !slices.ContainsFunc(found, key.Equal) {
			found = append(found, key)
		}
	}
	for _, s := range live {
		add(s.OrganizationKey)
	}
	for _, key := range l.r.journal.keys() {
		add(key)
	}
	return found
}

func (r *Reporter) sendHeartbeat(ctx context.Context, key session.OrganizationKey, seq int64, ids []uuid.UUID, live []session.Session) (next time.Duration, err error) {
	answer, err := r.cloud.Heartbeat(ctx, key, seq, ids)
	if err != nil {
		if isFinal(err) {
			r.logger.WarnContext(ctx, "the cloud refused a heartbeat", "error", err)
		}
		return 0, err
	}
	if !answer.Applied && !r.superseded(seq) {
		r.logger.WarnContext(ctx, "the cloud knows a later heartbeat of this machine: is its id used twice?")
	}
	if len(answer.Released) > 0 {
		r.logger.InfoContext(ctx, "the cloud released sessions that no longer run here", "sessions", answer.Released)
	}
	r.reportAgain(ctx, key, live, answer.Unknown)
	next = defaultHeartbeatInterval
	if answer.NextSeconds > 0 {
		next = time.Duration(answer.NextSeconds) * time.Second
	}
	return next, nil
}

// reportAgain reports the start of sessions that run here, are charged to the key
// and that its organization does not know.
func (r *Reporter) reportAgain(ctx context.Context, key session.OrganizationKey, live []session.Session, unknown []uuid.UUID) {
	for _, id := range unknown {
		for _, s := range live {
			if s.ID != id || !r.callerKey(s.OrganizationKey).Equal(key) || r.journal.has(id) {
				continue
			}
			start := r.startOf(s)
			r.logger.WarnContext(ctx, "the cloud does not know a session that runs here", "sessionId", id)
			r.put(entry{Start: &start})
		}
	}
}
