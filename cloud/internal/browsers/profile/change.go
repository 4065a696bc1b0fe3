package profile

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/certs"
	"github.com/browser-svc/svc/shared/fault"
)

// Update applies a JSON merge patch that passed the document's validation: absent
// fields stay unchanged, null clears, proxy is merged field by field, lists and maps
// are replaced. A new proxy server clears the password unless the patch contains one. A
// client certificate of which the patch names only the origin is kept.
// Returns Conflict if ifMatch is set and is not the current version.
func (s *Service) Update(ctx context.Context, orgID, id uuid.UUID, ifMatch *int64, patch json.RawMessage) (Profile, error) {
	certificates, err := s.certificatesOf(ctx, patch)
	if err != nil {
		return Profile{}, err
	}
	var result Profile
	err = pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		r, err := find(ctx, tx, orgID, id, true)
		if err != nil {
			return err
		}
		if err := r.checkVersion(ifMatch); err != nil {
			return err
		}
		if err := s.patch(&r, patch, certificates); err != nil {
			return err
		}
		if err := r.update(ctx, tx); err != nil {
			return err
		}
		change, err := changeOf(patch)
		if err != nil {
			return err
		}
		if err := s.record(ctx, tx, updated, &r, change); err != nil {
			return err
		}
		result, err = s.withLiveSessions(ctx, tx, &r)
		return err
	})
	return result, err
}

func (s *Service) patch(r *row, patch json.RawMessage, certificates *[]certs.Client) error {
	p, err := r.profile()
	if err != nil {
		return err
	}
	fields, password, err := applyPatch(p.Fields, patch)
	if err != nil {
		return err
	}
	problems, err := r.replaceCertificates(s.Sealer, certificates)
	if err != nil {
		return err
	}
	if err := fields.check("", problems...); err != nil {
		return err
	}
	if err := r.set(fields); err != nil {
		return err
	}
	r.Version++
	r.UpdatedAt = s.Clock.Now()
	if password.forget {
		return r.encryptPassword(s.Sealer, password.set)
	}
	return nil
}

// Delete deletes a profile. Returns Conflict if it has running sessions or
// another version than ifMatch.
func (s *Service) Delete(ctx context.Context, orgID, id uuid.UUID, ifMatch *int64) error {
	return pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		r, err := find(ctx, tx, orgID, id, true)
		if err != nil {
			return err
		}
		if err := r.checkVersion(ifMatch); err != nil {
			return err
		}
		count, err := s.LiveSessions.HeldByProfile(ctx, tx, orgID, id)
		if err != nil {
			return fmt.Errorf("count live sessions: %w", err)
		}
		if count > 0 {
			return fault.New(fault.Conflict, "The profile has running sessions.")
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM profiles WHERE organization_id = $1 AND id = $2`, orgID, id); err != nil {
			return fmt.Errorf("delete a profile: %w", err)
		}
		return s.record(ctx, tx, deleted, &r, nil)
	})
}

func (r *row) checkVersion(version *int64) error {
	if version != nil && *version != r.Version {
		return fault.New(fault.Conflict, "The profile has been changed since it was read.")
	}
	return nil
}
