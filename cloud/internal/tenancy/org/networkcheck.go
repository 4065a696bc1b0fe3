package org

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/netrules"
)

// NetworkCheck is a request of a browser and the rules of its launch, by level.
type NetworkCheck struct {
	Request netrules.Request

	Organization *netrules.Rules // nil: those that are stored
	Profile      *netrules.Rules
	Launch       *netrules.Rules
}

// CheckNetwork decides about a request as a browser with these rules does. It returns
// Validation for invalid rules and for what is not a URL.
func (s *Service) CheckNetwork(ctx context.Context, userID, orgID uuid.UUID, c NetworkCheck) (netrules.Verdict, error) {
	details := slices.Concat(c.Organization.Check("organization."), c.Profile.Check("profile."), c.Launch.Check("launch."))
	address, err := netrules.Canonical(c.Request.URL)
	if err != nil {
		details = append(details, fault.Detail{Field: "url", Code: fault.InvalidFormat, Message: err.Error(), Received: c.Request.URL})
	}
	if len(details) > 0 {
		return netrules.Verdict{}, fault.Invalid(details...)
	}
	if c.Organization == nil {
		o, err := s.Get(ctx, userID, orgID)
		if err != nil {
			return netrules.Verdict{}, err
		}
		c.Organization = o.Network
	}
	rules, err := netrules.NewPolicy(
		netrules.Level{Name: "organization", Rules: c.Organization},
		netrules.Level{Name: "profile", Rules: c.Profile},
		netrules.Level{Name: "launch", Rules: c.Launch},
	)
	if err != nil {
		return netrules.Verdict{}, fmt.Errorf("network rules: %w", err)
	}
	c.Request.URL = address
	return rules.Check(c.Request), nil
}
