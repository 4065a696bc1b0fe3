package license

import (
	"context"

	"github.com/google/uuid"
)

// MaxTombstones is the bound of tombstones per organization.
const MaxTombstones = maxTombstones

// DeleteSupersededBoots is a step of RunReaper.
func (s *Service) DeleteSupersededBoots(ctx context.Context) (int, error) {
	return s.deleteSupersededBoots(ctx)
}

// ReapOrganizations is the second step of Reap.
func (s *Service) ReapOrganizations(ctx context.Context, orgs []uuid.UUID) (int, error) {
	return s.reap(ctx, orgs)
}

// RecordRefusal is called by Authorize for each refusal.
func (s *Service) RecordRefusal(req Request, grant Grant) { s.recordRefusal(req, grant) }

// WaitingForGrants returns how many authorize calls are queued behind the running
// batch.
func (s *Service) WaitingForGrants(orgID uuid.UUID) int { return s.grants.Waiting(orgID) }

// WaitingForReleases returns how many end calls are queued behind the running batch.
func (s *Service) WaitingForReleases(orgID uuid.UUID) int {
	return s.cancellations.Waiting(orgID) + s.releases.Waiting(orgID)
}

// PoolCalls returns how many calls have a connection or wait for one.
func (s *Service) PoolCalls(orgID uuid.UUID) int {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if seats := s.db.orgs[orgID]; seats != nil {
		return seats.calls
	}
	return 0
}

// WaitIdle returns when no call is in progress, including releases for cancelled
// callers.
func (s *Service) WaitIdle() {
	s.grants.Wait()
	s.cancellations.Wait()
	s.releases.Wait()
}
