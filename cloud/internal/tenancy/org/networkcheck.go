package org

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
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
func (s *Service) CheckNetwork(ctx context.Context, orgID uuid.UUID, c NetworkCheck) (netrules.Verdict, error) {
	details := slices.Concat(c.Organization.Check("organization."), c.Profile.Check("profile."), c.Launch.Check("launch."))
	address, err := netrules.Canonical(c.Request.URL)
	if err != nil {
		details = append(details, fault.Detail{Field: "url", Code: fault.InvalidFormat, Message: err.Error(), Received: c.Request.URL})
	}
	if len(details) > 0 {
		return netrules.Verdict{}, fault.Invalid(details...)
	}
	if c.Organization == nil {
		if c.Organization, err = s.network(ctx, orgID); err != nil {
			return netrules.Verdict{}, err
		}
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

// network returns the network rules of an organization, nil for none.
func (s *Service) network(ctx context.Context, orgID uuid.UUID) (*netrules.Rules, error) {
	var o Organization
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		err := tx.GetContext(ctx, &o, `SELECT network FROM organizations WHERE id = $1`, orgID)
		if errors.Is(err, sql.ErrNoRows) {
			return fault.Missing("organization")
		}
		if err != nil {
			return fmt.Errorf("read the network rules of an organization: %w", err)
		}
		return nil
	})
	return o.Network, err
}
