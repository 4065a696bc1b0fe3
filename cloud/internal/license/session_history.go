package license

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// maxSessionRefusals bounds the refusals of a SessionHistory.
const maxSessionRefusals = 100

// SessionHistory is what the license accounting recorded about a session.
type SessionHistory struct {
	Slot     *Timeline // nil if the session has no slot or it was deleted
	Refusals []Refusal // the latest, earliest first
}

// Refusal is a refused launch or start.
type Refusal struct {
	At     time.Time `db:"at"`
	Reason string    `db:"reason"`
}

const sessionRefusalsSQL = `
SELECT at, reason FROM (
	SELECT at, coalesce(reason, '') AS reason FROM license_events
	WHERE organization_id = $1 AND session_id = $2 AND kind = 'refused' ORDER BY at DESC LIMIT $3) r
ORDER BY at`

// SessionHistory returns the slot of a session of the organization and its refusals,
// from one snapshot. It is empty for an unknown session.
func (s *Service) SessionHistory(ctx context.Context, orgID, sessionID uuid.UUID) (SessionHistory, error) {
	var history SessionHistory
	err := s.db.snapshot(ctx, orgID, func(tx *sqlx.Tx) error {
		slot, err := readTimeline(ctx, tx, timelineSQL+` AND session_id = $2`, orgID, sessionID)
		switch {
		case err == nil:
			history.Slot = &slot
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		if err := tx.SelectContext(ctx, &history.Refusals, sessionRefusalsSQL, orgID, sessionID, maxSessionRefusals); err != nil {
			return fmt.Errorf("read the refusals of a session: %w", err)
		}
		return nil
	})
	for i := range history.Refusals {
		history.Refusals[i].At = history.Refusals[i].At.UTC()
	}
	return history, err
}
