package org

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/netrules"
)

// Change is an update of an organization; nil fields stay unchanged.
type Change struct {
	Name         *string
	Slug         *string
	Network      *netrules.Rules
	ClearNetwork bool // removes the network rules
}

// Update changes an organization and returns it. Returns Forbidden for members,
// Conflict for a taken slug, and Validation for invalid network rules.
func (s *Service) Update(ctx context.Context, orgID, userID uuid.UUID, c Change) (Organization, error) {
	if details := c.Network.Check("network."); len(details) > 0 {
		return Organization{}, fault.Invalid(details...)
	}
	var o Organization
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		role, err := lockForMember(ctx, tx, orgID, userID)
		if err != nil {
			return err
		}
		if !role.manages(Member) {
			return forbidden("Only an owner or an admin can change the organization.")
		}
		before, err := find(ctx, tx, userID, orgID)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `
			UPDATE organizations SET name = coalesce($2, name), slug = coalesce($3, slug),
				network = CASE WHEN $5 THEN NULL ELSE coalesce($4, network) END
			WHERE id = $1`, orgID, c.Name, c.Slug, c.Network, c.ClearNetwork)
		if pg.IsUnique(err, "organizations_slug_key") {
			return errSlugTaken(*c.Slug)
		}
		if err != nil {
			return fmt.Errorf("change an organization: %w", err)
		}
		if o, err = find(ctx, tx, userID, orgID); err != nil {
			return err
		}
		details := map[string]any{"name": o.Name, "slug": o.Slug, "oldName": before.Name, "oldSlug": before.Slug}
		if c.Network != nil || c.ClearNetwork {
			details["fields"] = []string{"network"}
		}
		return s.Audit.Record(ctx, tx, orgID, "organization.updated", orgID.String(), details)
	})
	return o, err
}

// Delete removes an organization permanently, with all its data. Returns Forbidden for
// users who are not owners, and Validation if slug is not the organization's slug.
//
// The locks are taken in the order that all transactions use: the subscription, those
// of Ender, then the rows with foreign keys.
func (s *Service) Delete(ctx context.Context, orgID, userID uuid.UUID, slug string) error {
	return pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		role, err := lockForMember(ctx, tx, orgID, userID)
		if err != nil {
			return err
		}
		if role != Owner {
			return forbidden("Only an owner can delete the organization.")
		}
		o, err := find(ctx, tx, userID, orgID)
		if err != nil {
			return err
		}
		if slug != o.Slug {
			return fault.Field("confirmSlug", "must be the slug of the organization")
		}
		err = s.Audit.Record(ctx, tx, orgID, "organization.deleted", orgID.String(), map[string]any{"name": o.Name, "slug": o.Slug})
		if err != nil {
			return err
		}
		if _, err := s.Limits.LockMemberLimit(ctx, tx, orgID); err != nil {
			return err
		}
		if err := s.Ender.EndOrganization(ctx, tx, orgID); err != nil {
			return fmt.Errorf("end an organization's resources: %w", err)
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM organizations WHERE id = $1`, orgID); err != nil {
			return fmt.Errorf("delete an organization: %w", err)
		}
		return nil
	})
}
