package org

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// Change is an update of an organization; nil fields stay unchanged.
type Change struct {
	Name *string
	Slug *string
}

// Update renames an organization and returns it. Returns Forbidden for members
// and Conflict for a taken slug.
func (s *Service) Update(ctx context.Context, orgID, userID uuid.UUID, c Change) (Organization, error) {
	var o Organization
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		role, err := lockForMember(ctx, tx, orgID, userID)
		if err != nil {
			return err
		}
		if !role.manages(Member) {
			return forbidden("Only an owner or an admin can rename the organization.")
		}
		before, err := find(ctx, tx, userID, orgID)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx,
			`UPDATE organizations SET name = coalesce($2, name), slug = coalesce($3, slug) WHERE id = $1`, orgID, c.Name, c.Slug)
		if pg.IsUnique(err, "organizations_slug_key") {
			return errSlugTaken(*c.Slug)
		}
		if err != nil {
			return fmt.Errorf("rename an organization: %w", err)
		}
		if o, err = find(ctx, tx, userID, orgID); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, orgID, "organization.updated", orgID.String(),
			map[string]any{"name": o.Name, "slug": o.Slug, "oldName": before.Name, "oldSlug": before.Slug})
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
