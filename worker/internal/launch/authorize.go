package launch

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
)

const (
	// endWaitTimeout bounds how long a launch of an organization without free slots
	// waits for sessions that are ending on this worker.
	endWaitTimeout = 5 * time.Second
	// leavingWindow is how long a session counts as ending after its client or its
	// browser closed a socket.
	leavingWindow = 2 * time.Second
)

// authorize requests a slot from the cloud. The request carries the ends that the
// cloud has not acknowledged, so that a session already reported as ended to a
// client does not occupy the slot of its next launch. If the organization has no
// free slot and the launch does not wait, authorize waits up to endWaitTimeout for sessions of the same key that
// are ending on this worker, and retries.
func (s *Service) authorize(ctx context.Context, asked Authorization) (Grant, error) {
	key := s.chargedKey(asked.OrganizationKey)
	waitCtx, cancel := context.WithTimeout(ctx, endWaitTimeout)
	defer cancel()
	if s.fullCache.recentlyFull(key) && asked.Wait == 0 {
		s.awaitEnds(waitCtx, key)
	}
	for {
		asked.Ends = s.Reports.Unacknowledged(key)
		grant, err := s.License.Authorize(ctx, asked)
		refused := fault.Is(err, fault.PaymentRequired)
		if err == nil || refused {
			s.Reports.Carried(asked.Ends)
			s.fullCache.set(key, refused || grant.Full)
		}
		if !refused || grant.Queued || !s.shouldRetry(waitCtx, key) {
			return grant, err
		}
	}
}

// shouldRetry reports whether a retry can succeed after a refusal: a session has
// ended since, or a pending end report was delivered.
func (s *Service) shouldRetry(ctx context.Context, key session.OrganizationKey) bool {
	waited := s.awaitEnds(ctx, key)
	delivered := s.Reports.Deliver(ctx, key)
	return ctx.Err() == nil && (waited || delivered || len(s.Reports.Unacknowledged(key)) > 0)
}

// awaitEnds waits for the ending sessions of a key until ctx ends. It reports
// whether one of them ended.
func (s *Service) awaitEnds(ctx context.Context, key session.OrganizationKey) (ended bool) {
	for _, run := range s.endingSessions(key) {
		ended = run.awaitEnd(ctx) || ended
	}
	return ended
}

// endingSessions returns the sessions of a key that are ending or about to end.
func (s *Service) endingSessions(key session.OrganizationKey) (found []*running) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, run := range s.live {
		if run.isEnding() && s.chargedKey(run.session.OrganizationKey).Equal(key) {
			found = append(found, run)
		}
	}
	return found
}

// chargedKey returns the key that a launch is charged to. It is zero for the
// worker's own key, even if a caller sent that key.
func (s *Service) chargedKey(key session.OrganizationKey) session.OrganizationKey {
	if key.Equal(s.Key) {
		return session.OrganizationKey{}
	}
	return key
}

// MarkLeaving records that the client of a launch has sent a close frame, or that
// its browser has closed a socket. The session most likely ends soon.
func (s *Service) MarkLeaving(launchID uuid.UUID) {
	found, ok := s.Sessions.ByLaunch(launchID)
	if !ok {
		return
	}
	if run, ok := s.lookup(found.ID); ok {
		run.leavingUntil.Store(time.Now().Add(leavingWindow).UnixNano())
	}
}

// isEnding reports whether the session is ending or about to end.
func (r *running) isEnding() bool {
	select {
	case <-r.browser.Done():
		return true
	default:
		return r.endRequested.Load() || time.Now().UnixNano() < r.leavingUntil.Load()
	}
}

// awaitEnd waits until the session's end is reported. It returns false if ctx ends
// first or the session turns out not to end.
func (r *running) awaitEnd(ctx context.Context) bool {
	for r.isEnding() {
		poll := time.NewTimer(leavingWindow)
		select {
		case <-r.done:
			poll.Stop()
			return true
		case <-ctx.Done():
			poll.Stop()
			return false
		case <-poll.C:
		}
	}
	return false
}

// fullCache remembers the keys for which the cloud's last answer left no free slot.
// It only decides whether a launch waits for ends before its first request. Keys are
// stored as hashes, and only after the cloud has accepted them.
type fullCache struct {
	mu   sync.Mutex
	keys map[[sha256.Size]byte]bool
}

func (f *fullCache) recentlyFull(key session.OrganizationKey) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keys[sha256.Sum256([]byte(key.Reveal()))]
}

func (f *fullCache) set(key session.OrganizationKey, full bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := sha256.Sum256([]byte(key.Reveal()))
	if !full {
		delete(f.keys, name)
		return
	}
	if f.keys == nil {
		f.keys = map[[sha256.Size]byte]bool{}
	}
	f.keys[name] = true
}
