package app

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/browsers/profile"
	"github.com/browser-svc/svc/cloud/internal/browsers/profiledata"
	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/cloud/internal/platform/audit"
	"github.com/browser-svc/svc/cloud/internal/tenancy/billing"
	"github.com/browser-svc/svc/cloud/internal/tenancy/plan"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/httpd"
)

// provisioner creates the subscription and slots of a new organization.
type provisioner struct {
	plans    *plan.Service
	licenses *license.Service
	clock    clock.Clock
}

// Provision implements org.Provisioner.
func (p provisioner) Provision(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) error {
	if err := p.plans.Subscribe(ctx, tx, orgID, plan.Free, p.clock.Now()); err != nil {
		return err
	}
	limits, err := p.plans.Limits(ctx, tx, orgID)
	if err != nil {
		return err
	}
	return p.licenses.SetLimit(ctx, tx, orgID, limits.Profiles)
}

// profileLimits adapts plan.Service to profile.Limits.
type profileLimits struct{ *plan.Service }

// Ceilings implements profile.Limits.
func (p profileLimits) Ceilings(ctx context.Context, q sqlx.QueryerContext, orgID uuid.UUID) (profile.Ceilings, error) {
	limits, err := p.Limits(ctx, q, orgID)
	return profile.Ceilings{
		ProfileLimit: limits.Profiles, MemberLimit: limits.Members, APIRpmLimit: limits.APIRpm, APIRphLimit: limits.APIRph,
	}, err
}

// requestLimits adapts plan.Service to usage.Limits.
type requestLimits struct{ *plan.Service }

// RequestLimits implements usage.Limits.
func (r requestLimits) RequestLimits(ctx context.Context, q sqlx.QueryerContext, orgID uuid.UUID) (perMinute, perHour *int, err error) {
	limits, err := r.Limits(ctx, q, orgID)
	return limits.APIRpm, limits.APIRph, err
}

// launchProfiles adapts profile.Service to the interfaces of license and rest.
type launchProfiles struct{ *profile.Service }

// Prepare implements license.Profiles.
func (p launchProfiles) Prepare(ctx context.Context, orgID uuid.UUID, ids []uuid.UUID) (map[uuid.UUID]license.Prepared, error) {
	found, err := p.Configs(ctx, orgID, ids)
	if err != nil {
		return nil, err
	}
	prepared := make(map[uuid.UUID]license.Prepared, len(found))
	for id, each := range found {
		prepared[id] = license.Prepared{Config: each.Config, Err: each.Err}
	}
	return prepared, nil
}

// CreateEphemeral returns a license.ProfileLimitError when the profile limit is
// reached.
func (p launchProfiles) CreateEphemeral(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, draft profile.Draft) (uuid.UUID, error) {
	id, err := p.Service.CreateEphemeral(ctx, tx, orgID, draft)
	var full *profile.LimitError
	if errors.As(err, &full) {
		return uuid.Nil, license.ProfileLimitError{Current: full.Current, Limit: full.Limit}
	}
	return id, err
}

// organizationEnder settles an organization's billing, slots and profile data before
// its deletion.
type organizationEnder struct {
	billing  *billing.Service
	licenses *license.Service
	data     *profiledata.Service
}

// EndOrganization implements org.Ender.
func (e organizationEnder) EndOrganization(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) error {
	if err := e.billing.EndOrganization(ctx, tx, orgID); err != nil {
		return err
	}
	if err := e.licenses.EndOrganization(ctx, tx, orgID); err != nil {
		return err
	}
	return e.data.EndOrganization(ctx, tx, orgID)
}

// auditSource returns the actor of the change that ctx belongs to, for the audit
// log.
func auditSource(ctx context.Context) audit.Source {
	caller := auth.CallerFrom(ctx)
	source := audit.Source{
		UserID: caller.UserID, KeyID: caller.KeyID,
		ClientAddress: httpd.ClientAddress(ctx), RequestID: httpd.RequestID(ctx),
	}
	if caller.Token != nil {
		source.TokenID, source.TokenName = caller.Token.ID, caller.Token.Name
	}
	if a := caller.ServiceAccount; a != nil {
		source.AccountID, source.AccountName = a.ID, a.Name
	}
	return source
}
