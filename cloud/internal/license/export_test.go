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
