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
	// endWaitTimeout bounds how long a launch of a full organization waits for
	// sessions that are being ended here.
	endWaitTimeout = 5 * time.Second
	// leavingWindow is how long a browser whose client has gone, or that closed its
	// sockets, is taken for one that is about to end.
	leavingWindow = 2 * time.Second
)

// authorize asks the cloud for a slot, and tells it in the same call of the ends
// that it has not acknowledged yet: what a client was told to be over must not
// take the slot of its next launch. In an organization without a free slot it
// waits, for a bounded time, for the sessions of the key that are ending here.
func (s *Service) authorize(ctx context.Context, asked Authorization) (Grant, error) {
	key := s.chargedKey(asked.OrganizationKey)
	patience, cancel := context.WithTimeout(ctx, endWaitTimeout)
	defer cancel()
	if s.fullCache.recentlyFull(key) {
		s.awaitEnds(patience, key)
	}
	for {
		asked.Ends = s.Reports.Unacknowledged(key)
		grant, err := s.License.Authorize(ctx, asked)
		refused := fault.Is(err, fault.PaymentRequired)
		if err == nil || refused {
			s.Reports.Carried(asked.Ends)
			s.fullCache.set(key, refused || grant.Full)
		}
		if !refused || !s.shouldRetry(patience, key) {
			return grant, err
		}
	}
}

// shouldRetry reports whether the cloud is worth asking again after a refusal: an end
// came in since, or one that waited behind its start was delivered.
func (s *Service) shouldRetry(ctx context.Context, key session.OrganizationKey) bool {
	waited := s.awaitEnds(ctx, key)
	delivered := s.Reports.Deliver(ctx, key)
	return ctx.Err() == nil && (waited || delivered || len(s.Reports.Unacknowledged(key)) > 0)
}

// awaitEnds waits for the sessions of a key that are ending now, as long as ctx
// allows, and reports whether one of them ended.
func (s *Service) awaitEnds(ctx context.Context, key session.OrganizationKey) (ended bool) {
	for _, run := range s.endingSessions(key) {
		ended = run.awaitEnd(ctx) || ended
	}
	return ended
}

// endingSessions lists the sessions of a key that are ending, or about to.
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

// chargedKey is the key that a launch is charged to: zero for the worker's own, also
// where a caller brought that.
func (s *Service) chargedKey(key session.OrganizationKey) session.OrganizationKey {
	if key.Equal(s.Key) {
		return session.OrganizationKey{}
	}
	return key
}

// MarkLeaving tells that the client of a launch has sent a close frame, or that its browser
// has closed a socket: most likely it is about to end.
func (s *Service) MarkLeaving(launchID uuid.UUID) {
	found, ok := s.Sessions.ByLaunch(launchID)
	if !ok {
		return
	}
	if run, ok := s.lookup(found.ID); ok {
		run.leavingUntil.Store(time.Now().Add(leavingWindow).UnixNano())
	}
}

// isEnding reports whether the session is ending, or about to.
func (r *running) isEnding() bool {
	select {
	case <-r.browser.Done():
		return true
	default:
		return r.endRequested.Load() || time.Now().UnixNano() < r.leavingUntil.Load()
	}
}

// awaitEnd waits until the session's end is reported, or it turns out not to end.
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

// fullCache remembers for which keys the cloud had no slot left when it answered
// last. It decides only whether a launch waits for ends before it asks. It names
// a key by its hash; a key is in it only once the cloud took it for good.
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
