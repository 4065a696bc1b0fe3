package launch

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
)

// endWaitTimeout bounds how long a launch of an organization without free slots waits
// for sessions that are ending on this worker.
const endWaitTimeout = 5 * time.Second

// authorize requests a slot from the cloud. The request carries the ends that the
// cloud has not acknowledged, so that a session already reported as ended to a
// client does not occupy the slot of its next launch. If the organization has no
// free slot and the launch does not wait, authorize waits up to endWaitTimeout for sessions of the same key that
// are ending on this worker, and retries.
func (s *Service) authorize(ctx context.Context, authorization Authorization) (Grant, error) {
	key := s.chargedKey(authorization.OrganizationKey)
	waitCtx, cancel := context.WithTimeout(ctx, endWaitTimeout)
	defer cancel()
	if s.fullCache.recentlyFull(key) && authorization.Wait == 0 {
		awaitEnds(waitCtx, s.sessionsOf(key))
	}
	for {
		sessions := s.sessionsOf(key) // one may end while the cloud decides
		authorization.Ends = s.Reports.Unacknowledged(key)
		grant, err := s.License.Authorize(ctx, authorization)
		refused := fault.Is(err, fault.PaymentRequired)
		if err == nil || refused {
			s.Reports.Carried(authorization.Ends)
			s.fullCache.set(key, refused || grant.Full)
		}
		if !refused || grant.Queued || !s.shouldRetry(waitCtx, key, sessions) {
			return grant, err
		}
	}
}

// shouldRetry reports whether a retry can succeed after a refusal: one of the sessions that
// were running before has ended, or a pending end report was delivered.
func (s *Service) shouldRetry(ctx context.Context, key session.OrganizationKey, sessions []*running) bool {
	ended := awaitEnds(ctx, sessions)
	delivered := s.Reports.Deliver(ctx, key)
	return ctx.Err() == nil && (ended || delivered || len(s.Reports.Unacknowledged(key)) > 0)
}

// awaitEnds waits for those of these sessions that are ending, until ctx ends. It reports
// whether one of them has ended.
func awaitEnds(ctx context.Context, sessions []*running) (ended bool) {
	for _, run := range sessions {
		ended = run.isEnding() && run.awaitEnd(ctx) || ended
	}
	return ended
}

// sessionsOf returns the sessions that are charged to a key, except those whose end is
// reported.
func (s *Service) sessionsOf(key session.OrganizationKey) (found []*running) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, run := range s.live {
		if s.chargedKey(run.session.OrganizationKey).Equal(key) {
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
