package vault

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
)

// Use returns the value of a field for a running session, and records the use. Errors:
// NotFound for the secret; Conflict if the session has no running slot in the
// organization; Forbidden for a profile or an origin that the secret does not allow;
// Validation for a field that the secret does not have.
func (s *Service) Use(ctx context.Context, orgID uuid.UUID, u Use) (value Value, err error) {
	err = pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		r, err := find(ctx, tx, orgID, u.Secret, true)
		if err != nil {
			return err
		}
		profileID, err := runningProfile(ctx, tx, orgID, u.SessionID)
		if err != nil {
			return err
		}
		if err := r.checkUse(u, profileID); err != nil {
			return err
		}
		if value, err = s.value(r, u.Field); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE secrets SET last_used_at = $3 WHERE organization_id = $1 AND id = $2`, orgID, r.ID, s.Clock.Now())
		if err != nil {
			return fmt.Errorf("record the time of a use: %w", err)
		}
		return s.record(ctx, tx, used, r, map[string]any{"field": u.Field, "sessionId": u.SessionID, "origin": u.Origin})
	})
	if err != nil {
		return Value{}, err
	}
	return value, nil
}

// runningProfile returns the profile of a session that has a running license slot.
func runningProfile(ctx context.Context, tx *sqlx.Tx, orgID, sessionID uuid.UUID) (profileID uuid.NullUUID, err error) {
	err = tx.GetContext(ctx, &profileID, `SELECT profile_id FROM license_slots
		WHERE organization_id = $1 AND session_id = $2 AND state = 'running'`, orgID, sessionID)
	if errors.Is(err, sql.ErrNoRows) {
		return profileID, fault.New(fault.Conflict, "The session is not running in this organization. Report its start first.")
	}
	if err != nil {
		return profileID, fmt.Errorf("read the slot of a session: %w", err)
	}
	return profileID, nil
}

// checkUse returns Forbidden if the secret does not allow the profile or the origin.
func (r *row) checkUse(u Use, profileID uuid.NullUUID) error {
	if r.ProfileIDs != nil && (!profileID.Valid || !slices.Contains(r.ProfileIDs, profileID.UUID.String())) {
		return fault.New(fault.Forbidden, "The secret does not allow the profile of this session.", fault.Detail{
			Field: "sessionId", Code: fault.Custom, Message: "its profile is not in profileIds of the secret", Received: u.SessionID.String(),
		})
	}
	if !r.allowsOrigin(u.Origin) {
		return fault.New(fault.Forbidden, "The secret does not allow this origin.", fault.Detail{
			Field: "origin", Code: fault.Custom, Message: "is not in origins of the secret", Received: u.Origin,
		})
	}
	return nil
}

// value returns the value of a field.
func (s *Service) value(r *row, f Field) (Value, error) {
	value := Value{SecretID: r.ID}
	text := r.Username
	if f != Username {
		var err error
		if text, err = r.decrypt(s.Sealer, f); err != nil {
			return Value{}, err
		}
	}
	if text == nil {
		return Value{}, fault.Invalid(fault.Detail{Field: "field", Code: fault.Custom, Message: "the secret does not have this field", Received: string(f)})
	}
	if value.Text = *text; f != TOTP {
		return value, nil
	}
	code, until, err := totpCode(*text, s.Clock.Now())
	if err != nil {
		return Value{}, fmt.Errorf("generate the code of secret %s: %w", r.ID, err)
	}
	value.Text, value.ValidUntil = code, &until
	return value, nil
}
