package proof_test

import (
	"context"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
)

// newProfile inserts the profile of a launch by spec, within the plan's limit.
func (s *testEnv) newProfile(ctx context.Context, tx *sqlx.Tx, org, id uuid.UUID) (uuid.UUID, error) {
	var most, has int
	if err := tx.GetContext(ctx, &most, `SELECT most FROM ceilings WHERE organization_id = $1 FOR UPDATE`, org); err != nil {
		return uuid.Nil, err
	}
	if err := tx.GetContext(ctx, &has, `SELECT count(*) FROM made WHERE organization_id = $1 AND NOT away`, org); err != nil {
		return uuid.Nil, err
	}
	if has >= most {
		return uuid.Nil, license.ProfileLimitError{Current: has, Limit: most}
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO made VALUES ($1, $2) ON CONFLICT DO NOTHING`, org, id)
	return id, err
}

// feedObserver records calls in a table, so that calls of rolled back transactions are
// not recorded. It deletes the profiles of ended launches, or sets them aside.
type feedObserver struct{}

func (feedObserver) SessionsStarted(ctx context.Context, tx *sqlx.Tx, started []license.Started) error {
	for _, s := range started {
		if s.Resumed {
			if _, err := tx.ExecContext(ctx, `UPDATE made SET away = false WHERE organization_id = $1 AND id = $2`, s.OrgID, s.ProfileID); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO feed AS f VALUES ($1, $2, true)
			ON CONFLICT (organization_id, session_id) DO UPDATE SET running = true, reason = NULL`, s.OrgID, s.SessionID)
		if err != nil {
			return err
		}
	}
	return nil
}

func (feedObserver) SessionsEnded(ctx context.Context, tx *sqlx.Tx, ended []license.Ended) error {
	for _, e := range ended {
		_, err := tx.ExecContext(ctx, `INSERT INTO feed AS f VALUES ($1, $2, false, $3)
			ON CONFLICT (organization_id, session_id) DO UPDATE SET running = false, reason = excluded.reason`, e.OrgID, e.SessionID, e.EndReason)
		if err != nil {
			return err
		}
		if e.ProfileID != nil {
			change := `DELETE FROM made WHERE organization_id = $1 AND id = $2`
			if e.GivenUp {
				change = `UPDATE made SET away = true WHERE organization_id = $1 AND id = $2`
			}
			if _, err := tx.ExecContext(ctx, change, e.OrgID, *e.ProfileID); err != nil {
				return err
			}
		}
	}
	return nil
}

// noAudit is an audit log that stores nothing.
type noAudit struct{}

func (noAudit) Record(context.Context, *sqlx.Tx, uuid.UUID, string, string, map[string]any) error {
	return nil
}
