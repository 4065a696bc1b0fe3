package report

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
)

// firstHeartbeatDelay is how soon after its start a session is in a heartbeat.
// Until then the cloud holds its slot for hours even if the worker is gone.
// Sessions that start within the delay share the heartbeat.
const firstHeartbeatDelay = 2 * time.Second

// maxHeartbeatRetry is the longest retry interval, before jitter, after a
// failed heartbeat with the worker's own key.
const maxHeartbeatRetry = 6 * time.Second

// failureLogInterval is how often a worker logs that heartbeats still fail.
const failureLogInterval = 5 * time.Minute

// heartbeatSender sends the heartbeats of the worker's own key, or those of all
// callers' keys, one at a time. Two senders keep callers' keys from delaying
// the worker's own heartbeats.
type heartbeatSender struct {
	r          *Reporter
	own        bool
	starts     *recentStarts
	unanswered []session.OrganizationKey // keys whose last heartbeat got no answer
	failure    string                    // the message of the failure since the last success; "" if none
	loggedAt   time.Time                 // when it was logged
}

func newHeartbeatSender(r *Reporter, own bool) *heartbeatSender {
	return &heartbeatSender{r: r, own: own, starts: newRecentStarts()}
}

// sender returns the sender of a key's heartbeats.
func (r *Reporter) sender(key session.OrganizationKey) *heartbeatSender {
	if r.callerKey(key).IsZero() {
		return r.own
	}
	return r.callers
}

// run sends a heartbeat at once, which also releases slots of an earlier boot,
// then at the interval that the cloud requests and soon after each start.
func (l *heartbeatSender) run(ctx context.Context) {
	pause := newBackoff()
	if l.own { // these heartbeats detect that launches are possible again
		pause.MaxInterval = maxHeartbeatRetry
	}
	every := defaultHeartbeatInterval
	for {
		wait := jitter(every)
		if next, err := l.sendHeartbeats(ctx); err != nil {
			wait = min(pause.NextBackOff(), wait)
			l.logFailure(ctx, err)
		} else {
			l.logRecovery(ctx)
			pause.Reset()
			every = next
			wait = jitter(every)
		}
		if !l.waitForRound(ctx, time.After(wait)) {
			return
		}
	}
}

// logFailure logs failed heartbeats once per failureLogInterval, and when their reason changes.
func (l *heartbeatSender) logFailure(ctx context.Context, err error) {
	failure := fault.From(err)
	if failure.Message == l.failure && time.Since(l.loggedAt) < failureLogInterval {
		return
	}
	l.failure, l.loggedAt = failure.Message, time.Now()
	attrs := []any{"error", err}
	if failure.Kind == fault.Unavailable {
		attrs = append(attrs, "do", "check that SVC_CLOUD_URL is the URL of the cloud and reachable")
	}
	l.r.logger.WarnContext(ctx, "heartbeat failed", attrs...)
}

func (l *heartbeatSender) logRecovery(ctx context.Context) {
	if l.failure != "" {
		l.failure = ""
		l.r.logger.InfoContext(ctx, "heartbeats succeed again")
	}
}

// waitForRound waits for the next round and sends first heartbeats for sessions
// that start in the meantime. If one fails, the next round begins at once. It
// returns false when ctx is done.
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

// requested returns the channel of heartbeat requests; nil for callers' keys.
func (l *heartbeatSender) requested() <-chan struct{} {
	if l.own {
		return l.r.heartbeatRequested
	}
	return nil
}

// jitter varies a duration by 10% to spread the heartbeats of a fleet.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()-0.5)*0.2*float64(d))
}

// sendHeartbeats sends the running sessions to the organization of each key.
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
		l.r.journal.signal() // a start that was refused because no slot was free may be accepted now
	}
	return next, err
}

// snapshot returns the running sessions and a growing sequence number.
func (r *Reporter) snapshot() (live []session.Session, seq int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	live, r.latest = r.live.Live()
	for id := range r.refusedStarts {
		if !slices.ContainsFunc(live, func(s session.Session) bool { return s.ID == id }) {
			delete(r.refusedStarts, id)
		}
	}
	return live, r.latest
}

// superseded reports whether a later heartbeat was sent.
func (r *Reporter) superseded(seq int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return seq < r.latest
}

// sendFirstHeartbeats sends heartbeats to the organizations of running sessions
// that started since the last heartbeat.
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

// sendAll sends a heartbeat with each key. Each lists all sessions, because a
// heartbeat releases omitted sessions and two keys may belong to one
// organization, and sessions with a pending commit, whose lease must last. A refused key does not stop the others. The round ends if the
// cloud does not answer. sendAll returns the first error.
func (l *heartbeatSender) sendAll(ctx context.Context, keys []session.OrganizationKey, live []session.Session, seq int64) (next time.Duration, err error) {
	ids := l.r.journal.committing()
	for _, s := range live {
		if !slices.Contains(ids, s.ID) {
			ids = append(ids, s.ID)
		}
	}
	next = defaultHeartbeatInterval
	for i, key := range l.unansweredLast(keys) {
		interval, failed := l.r.sendHeartbeat(ctx, key, seq, ids, live)
		l.unanswered = slices.DeleteFunc(l.unanswered, key.Equal)
		if failed != nil {
			if !isFinal(failed) && err == nil { // a refused caller's key is not an error of the worker
				err = failed
			}
			if errors.Is(failed, ErrNoAnswer) {
				l.unanswered = append(l.unanswered, key)
				break // other keys would get no answer either
			}
			continue
		}
		if i == 0 || interval < next {
			next = interval
		}
	}
	return next, err
}

// unansweredLast moves keys without an answer to the end: the cloud may be slow
// for one organization only.
func (l *heartbeatSender) unansweredLast(keys []session.OrganizationKey) []session.OrganizationKey {
	silence := func(key session.OrganizationKey) int { return slices.IndexFunc(l.unanswered, key.Equal) }
	return slices.SortedStableFunc(slices.Values(keys), func(a, b session.OrganizationKey) int {
		return cmp.Compare(silence(a), silence(b))
	})
}

// keys returns the keys to send heartbeats with: the worker's own, or each
// caller's key with a running session or a pending report.
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
		r.logger.WarnContext(ctx, "the cloud has a later heartbeat of this machine id: is WORKER_ID used by two workers?")
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

// reportAgain reports the start of running sessions that the key's organization
// does not know, unless the cloud has finally refused it.
func (r *Reporter) reportAgain(ctx context.Context, key session.OrganizationKey, live []session.Session, unknown []uuid.UUID) {
	for _, id := range unknown {
		for _, s := range live {
			if _, pending := r.journal.get(id); pending || s.ID != id || !r.callerKey(s.OrganizationKey).Equal(key) || r.isRefused(id) {
				continue
			}
			start := r.startOf(s)
			r.logger.WarnContext(ctx, "the cloud does not know a running session, reporting it again", "sessionId", id)
			r.put(entry{Start: &start})
		}
	}
}
