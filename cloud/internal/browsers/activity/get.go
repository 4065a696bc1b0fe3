package activity

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// Detail is a session, the name of its organization key and its hosts.
type Detail struct {
	Session
	KeyName *string `db:"key_name"` // nil if it is not known
	Hosts   Hosts   `db:"hosts"`    // nil until they are reported
}

const detailSQL = `
SELECT ` + sessionColumns + `, hosts,
	(SELECT k.name FROM api_keys k WHERE k.organization_id = a.organization_id AND k.id = a.key_id) AS key_name
FROM activity_sessions a WHERE organization_id = $1 AND id = $2`

// Get returns a session of the organization, or NotFound.
func (f *Feed) Get(ctx context.Context, orgID, sessionID uuid.UUID) (Detail, error) {
	var found Detail
	err := pg.InOrg(ctx, f.DB, orgID, func(tx *sqlx.Tx) error {
		err := tx.GetContext(ctx, &found, detailSQL, orgID, sessionID)
		if errors.Is(err, sql.ErrNoRows) {
			return fault.Missing("session")
		}
		if err != nil {
			return fmt.Errorf("read a session: %w", err)
		}
		return nil
	})
	found.Duration = found.duration(f.Clock.Now())
	return found, err
}
