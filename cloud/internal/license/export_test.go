package license

import "context"

// ForgetLateBoots is a step of RunReaper.
func (s *Service) ForgetLateBoots(ctx context.Context) (int, error) { return s.forgetLateBoots(ctx) }

// Refused is what Authorize calls for each refusal.
func (s *Service) Refused(req Request, grant Grant) { s.refused(req, grant) }
