package vault

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// Create creates a secret. Errors: Validation; NotFound for a profile that the
// organization does not have; Conflict for a name that another secret has; Forbidden at
// the limit, with both numbers.
func (s *Service) Create(ctx context.Context, orgID uuid.UUID, d Draft) (Secret, error) {
	if err := d.check(d.TOTPSeed); err != nil {
		return Secret{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Secret{}, fmt.Errorf("generate a secret id: %w", err)
	}
	now := s.Clock.Now()
	r := &row{ID: id, OrganizationID: orgID, CreatedAt: now, UpdatedAt: now}
	r.set(d.Fields)
	if err := r.encrypt(s.Sealer, Password, d.Password); err != nil {
		return Secret{}, err
	}
	if err := r.encrypt(s.Sealer, TOTP, d.TOTPSeed); err != nil {
		return Secret{}, err
	}
	err = pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		if err := checkLimit(ctx, tx, orgID); err != nil {
			return err
		}
		if err := lockProfiles(ctx, tx, orgID, d.ProfileIDs); err != nil {
			return err
		}
		if err := r.write(ctx, tx); err != nil {
			return err
		}
		return s.record(ctx, tx, created, r, map[string]any{"origins": r.Origins})
	})
	if err != nil {
		return Secret{}, err
	}
	return r.secret()
}

// checkLimit returns Forbidden if the organization has maxSecrets secrets.
func checkLimit(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) error {
	count, err := pg.CountForLimit(ctx, tx, "secrets", orgID)
	if err != nil || count < maxSecrets {
		return err
	}
	return fault.New(fault.Forbidden, "The organization has reached its limit of secrets. Delete a secret first.", fault.Detail{
		Field: "secrets", Code: fault.Custom, Message: "the limit is reached", Constraint: map[string]any{"current": count, "limit": maxSecrets},
	})
}

// lockProfiles returns NotFound for a profile that the organization does not have. The
// profiles are not deleted until tx ends, so the trigger of a later deletion sees the
// secret. Nil is no list.
func lockProfiles(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, ids *[]uuid.UUID) error {
	if ids == nil {
		return nil
	}
	var found []uuid.UUID
	err := tx.SelectContext(ctx, &found, `SELECT id FROM profiles
		WHERE organization_id = $1 AND id = ANY ($2) AND NOT ephemeral ORDER BY id FOR KEY SHARE`, orgID, pq.Array(*ids))
	if err != nil {
		return fmt.Errorf("lock the profiles of a secret: %w", err)
	}
	for i, id := range *ids {
		if !slices.Contains(found, id) {
			return fault.New(fault.NotFound, "No such profile.", fault.Detail{
				Field: fmt.Sprintf("profileIds[%d]", i), Code: fault.ResourceNotFound, Message: "is not a profile of the organization", Received: id.String(),
			})
		}
	}
	return nil
}

// Update applies a JSON merge patch that passed the document's validation: absent fields
// stay unchanged, null clears, lists are replaced. The errors are those of Create, and
// NotFound for the secret.
func (s *Service) Update(ctx context.Context, orgID, id uuid.UUID, patch json.RawMessage) (Secret, error) {
	var changes map[string]json.RawMessage
	var profiles struct {
		IDs *[]uuid.UUID `json:"profileIds"`
	}
	if err := json.Unmarshal(patch, &changes); err != nil {
		return Secret{}, fmt.Errorf("read the patch of a secret: %w", err)
	}
	if err := json.Unmarshal(patch, &profiles); err != nil {
		return Secret{}, fmt.Errorf("read the profiles of a patch: %w", err)
	}
	var result Secret
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		// The deletion of a profile locks the profile and then its secrets, so this does, too.
		if err := lockProfiles(ctx, tx, orgID, profiles.IDs); err != nil {
			return err
		}
		r, err := find(ctx, tx, orgID, id.String(), true)
		if err != nil {
			return err
		}
		if err := s.patch(r, patch, changes); err != nil {
			return err
		}
		if err := r.write(ctx, tx); err != nil {
			return err
		}
		if err := s.record(ctx, tx, updated, r, map[string]any{"fields": slices.Sorted(maps.Keys(changes))}); err != nil {
			return err
		}
		result, err = r.secret()
		return err
	})
	return result, err
}

// patch applies a patch to the row; changes are the members of the patch.
func (s *Service) patch(r *row, patch json.RawMessage, changes map[string]json.RawMessage) error {
	current, err := r.secret()
	if err != nil {
		return err
	}
	fields := current.Fields
	if err := json.Unmarshal(patch, &fields); err != nil {
		return fmt.Errorf("apply the patch of a secret: %w", err)
	}
	if fields.Origins == nil { // null is no change
		fields.Origins = current.Origins
	}
	var values struct {
		Password *string `json:"password"`
		TOTPSeed *string `json:"totpSeed"`
	}
	if err := json.Unmarshal(patch, &values); err != nil {
		return fmt.Errorf("read the values of a secret: %w", err)
	}
	if err := fields.check(values.TOTPSeed); err != nil {
		return err
	}
	r.set(fields)
	r.UpdatedAt = s.Clock.Now()
	if _, ok := changes["password"]; ok {
		if err := r.encrypt(s.Sealer, Password, values.Password); err != nil {
			return err
		}
	}
	if _, ok := changes["totpSeed"]; ok {
		return r.encrypt(s.Sealer, TOTP, values.TOTPSeed)
	}
	return nil
}

// Delete deletes a secret. Errors: NotFound.
func (s *Service) Delete(ctx context.Context, orgID, id uuid.UUID) error {
	return pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		r, err := find(ctx, tx, orgID, id.String(), true)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM secrets WHERE organization_id = $1 AND id = $2`, orgID, id); err != nil {
			return fmt.Errorf("delete a secret: %w", err)
		}
		return s.record(ctx, tx, deleted, r, nil)
	})
}

// check returns the problems of the fields and of a TOTP seed; nil is none. It replaces
// the origins by their normal form.
func (f *Fields) check(totpSeed *string) error {
	var problems []fault.Detail
	if _, err := uuid.Parse(f.Name); err == nil {
		problems = append(problems, fault.Detail{Field: "name", Code: fault.Custom, Message: "must not be a UUID", Received: f.Name})
	}
	origins := make([]string, len(f.Origins))
	for i, text := range f.Origins {
		parsed, err := parsePattern(text)
		if err != nil {
			problems = append(problems, fault.Detail{Field: fmt.Sprintf("origins[%d]", i), Code: fault.Custom, Message: err.Error(), Received: text})
		}
		origins[i] = parsed.String()
	}
	f.Origins = origins
	if totpSeed != nil {
		if _, err := parseSeed(*totpSeed); err != nil {
			problems = append(problems, fault.Detail{Field: "totpSeed", Code: fault.Custom, Message: err.Error()})
		}
	}
	if len(problems) > 0 {
		return fault.Invalid(problems...)
	}
	return nil
}

// record records a change or a use of the secret with its name and the given details.
func (s *Service) record(ctx context.Context, tx *sqlx.Tx, action string, r *row, more map[string]any) error {
	details := map[string]any{"name": r.Name}
	maps.Copy(details, more)
	return s.Audit.Record(ctx, tx, r.OrganizationID, action, r.ID.String(), details)
}
