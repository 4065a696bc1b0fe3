package license

import (
	"context"

	"github.com/google/uuid"
)

// TombstonesMost is how many ends of unknown sessions are remembered.
const TombstonesMost = tombstonesMost

// ForgetLateBoots is a step of RunReaper.
func (s *Service) ForgetLateBoots(ctx context.Context) (int, error) { return s.forgetLateBoots(ctx) }

// ReapIn is the second step of Reap.
func (s *Service) ReapIn(ctx context.Context, orgs []uuid.UUID) (int, error) {
	return s.reap(ctx, orgs)
}

// Refused is what Authorize calls for each refusal.
func (s *Service) Refused(req Request, grant Grant) { s.refused(req, grant) }
