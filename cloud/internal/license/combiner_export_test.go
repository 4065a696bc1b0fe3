package license

import "github.com/google/uuid"

// WaitingForGrants is how many authorizes wait behind the batch under way.
func (s *Service) WaitingForGrants(orgID uuid.UUID) int { return s.grants.length(orgID) }

// WaitingForReleases is how many ends wait behind the batch under way.
func (s *Service) WaitingForReleases(orgID uuid.UUID) int { return s.releases.length(orgID) }

// HoldGrants makes authorizes of the organization wait until letGo.
func (s *Service) HoldGrants(orgID uuid.UUID) (letGo func()) {
	if first, err := s.grants.enter(s.grants.newCall(orgID, want{})); !first || err != nil {
		panic("a batch is under way")
	}
	s.grants.next(orgID)
	return func() { s.grants.next(orgID) }
}

// Settle returns when nothing is under way, what is given back for callers who
// left included.
func (s *Service) Settle() {
	s.grants.busy.Wait()
	s.releases.busy.Wait()
}

func (c *combiner[Q, A]) length(orgID uuid.UUID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting[orgID])
}
