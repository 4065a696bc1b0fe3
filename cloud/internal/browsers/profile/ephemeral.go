package profile

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// ephemeralName is the default name of an ephemeral profile.
const ephemeralName = "Unnamed launch"

// CreateEphemeral creates, within tx, the profile of one launch and returns its ID. The
// profile counts toward the profile limit, as in Create. The draft may omit the name
// and the browser version, which TouchUsed sets later.
func (s *Service) CreateEphemeral(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, draft Draft) (uuid.UUID, error) {
	if err := draft.check("spec."); err != nil {
		return uuid.Nil, err
	}
	if draft.Name == "" {
		draft.Name = ephemeralName
	}
	r, err := s.newRow(orgID, uuid.Nil, draft)
	if err != nil {
		return uuid.Nil, err
	}
	r.Ephemeral = true
	return r.ID, s.insertWithinLimit(ctx, tx, r)
}

// RemoveEphemeral deletes, within tx, the ephemeral ones among the profiles.
func (s *Service) RemoveEphemeral(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, ids []uuid.UUID) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM profiles WHERE organization_id = $1 AND id = ANY($2) AND ephemeral`,
		orgID, pq.Array(ids))
	if err != nil {
		return fmt.Errorf("remove ephemeral profiles: %w", err)
	}
	return nil
}

// AbandonEphemeral marks, within tx, the ephemeral ones among the profiles as not
// counting toward the limit. They are kept in case their session is resumed.
func (s *Service) AbandonEphemeral(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, ids []uuid.UUID) error {
	_, err := tx.ExecContext(ctx, `
		UPDATE profiles SET given_up_at = clock_timestamp() WHERE organization_id = $1 AND id = ANY($2) AND ephemeral`,
		orgID, pq.Array(ids))
	if err != nil {
		return fmt.Errorf("abandon ephemeral profiles: %w", err)
	}
	return nil
}

// ResumeEphemeral makes abandoned profiles count again, within tx, even above the
// profile limit, because their sessions are running.
func (s *Service) ResumeEphemeral(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, ids []uuid.UUID) error {
	_, err := tx.ExecContext(ctx, `
		UPDATE profiles SET given_up_at = NULL WHERE organization_id = $1 AND id = ANY($2) AND given_up_at IS NOT NULL`,
		orgID, pq.Array(ids))
	if err != nil {
		return fmt.Errorf("resume ephemeral profiles: %w", err)
	}
	return nil
}

// SweepEphemeral deletes profiles abandoned longer ago than the given time, and
// returns how many.
func (s *Service) SweepEphemeral(ctx context.Context, ago time.Duration) (int64, error) {
	result, err := s.System.ExecContext(ctx,
		`DELETE FROM profiles WHERE ephemeral AND given_up_at < clock_timestamp() - make_interval(secs => $1)`, ago.Seconds())
	if err != nil {
		return 0, fmt.Errorf("delete ephemeral profiles: %w", err)
	}
	return result.RowsAffected()
}

// OrphanedEphemeral returns the number of ephemeral profiles that count toward a profile
// limit, and of those whose launch has no slot.
func OrphanedEphemeral(ctx context.Context, system *sqlx.DB) (profiles, orphaned int, err error) {
	err = system.QueryRowxContext(ctx, `
		SELECT count(*), count(*) FILTER (WHERE NOT EXISTS (
			SELECT FROM license_slots s
			WHERE s.organization_id = p.organization_id AND s.profile_id = p.id AND s.released_at IS NULL))
		FROM profiles p WHERE p.ephemeral AND p.given_up_at IS NULL`).Scan(&profiles, &orphaned)
	if err != nil {
		return 0, 0, fmt.Errorf("look for ephemeral profiles without a session: %w", err)
	}
	return profiles, orphaned, nil
}

// Use is one launch of a profile.
type Use struct {
	OrganizationID uuid.UUID
	ProfileID      uuid.UUID
	BrowserVersion int32 // major; 0 if unknown
	At             time.Time
}

// TouchUsed records, within tx, when profiles were last used, and the version of
// an ephemeral profile without one. It skips locked rows, so that launches of the
// same profile do not wait for each other.
func (s *Service) TouchUsed(ctx context.Context, tx *sqlx.Tx, uses []Use) error {
	organizations, ids := make([]uuid.UUID, len(uses)), make([]uuid.UUID, len(uses))
	versions, times := make([]int32, len(uses)), make([]time.Time, len(uses))
	for i, u := range uses {
		organizations[i], ids[i], versions[i], times[i] = u.OrganizationID, u.ProfileID, u.BrowserVersion, u.At
	}
	_, err := tx.ExecContext(ctx, `
		WITH used AS (
			SELECT id, organization_id, max(version) AS version, max(at) AS at
			FROM unnest($1::uuid[], $2::uuid[], $3::integer[], $4::timestamptz[]) AS u (organization_id, id, version, at)
			GROUP BY id, organization_id
		), free AS (
			SELECT p.id, used.version, used.at FROM profiles p JOIN used USING (id, organization_id)
			FOR NO KEY UPDATE OF p SKIP LOCKED
		)
		UPDATE profiles p
		SET last_used_at = GREATEST(p.last_used_at, free.at),
		    browser_version = COALESCE(p.browser_version, NULLIF(free.version, 0))
		FROM free WHERE p.id = free.id`,
		pq.Array(organizations), pq.Array(ids), pq.Array(versions), pq.Array(times))
	if err != nil {
		return fmt.Errorf("record the use of profiles: %w", err)
	}
	return nil
}
