package license

import (
	"context"

	"github.com/google/uuid"
)

// MaxTombstones is how many ends of unknown sessions are remembered.
const MaxTombstones = maxTombstones

// DeleteStaleBoots is a step of RunReaper.
func (s *Service) DeleteStaleBoots(ctx context.Context) (int, error) { return s.deleteStaleBoots(ctx) }

// ReapOrganizations is the second step of Reap.
func (s *Service) ReapOrganizations(ctx context.Context, orgs []uuid.UUID) (int, error) {
	return s.reap(ctx, orgs)
}

// RecordRefusal is what Authorize calls for each refusal.
func (s *Service) RecordRefusal(req Request, grant Grant) { s.recordRefusal(req, grant) }

// WaitingForGrants is how many authorizes wait behind the batch under way.
func (s *Service) WaitingForGrants(orgID uuid.UUID) int { return s.grants.Waiting(orgID) }

// WaitingForReleases is how many ends wait behind the batch under way.
func (s *Service) WaitingForReleases(orgID uuid.UUID) int {
	return s.cancellations.Waiting(orgID) + s.releases.Waiting(orgID)
}

// PoolCalls is how many calls have a turn or wait for one.
func (s *Service) PoolCalls(orgID uuid.UUID) int {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if seats := s.db.orgs[orgID]; seats != nil {
		return seats.calls
	}
	return 0
}

// WaitIdle returns when nothing is under way, what is given back for callers who
// left included.
func (s *Service) WaitIdle() {
	s.grants.Wait()
	s.cancellations.Wait()
	s.releases.Wait()
}
