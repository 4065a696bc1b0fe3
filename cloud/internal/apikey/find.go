package apikey

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/fault"
)

// Find returns the key with this id, or with this text, and the organization that
// it belongs to. One that is unknown or revoked is NotFound. The pool sees all
// organizations.
func Find(ctx context.Context, system *sqlx.DB, ref string) (Key, uuid.UUID, error) {
	var found struct {
		Key
		OrgID uuid.UUID `db:"organization_id"`
	}
	sum := hash(ref)
	err := system.GetContext(ctx, &found, `SELECT organization_id, `+columns+` FROM api_keys
		WHERE (id::text = $1 OR key_hash = $2) AND revoked_at IS NULL`, strings.ToLower(ref), sum[:])
	if errors.Is(err, sql.ErrNoRows) {
		return Key{}, uuid.Nil, fault.Missing("key")
	}
	if err != nil {
		return Key{}, uuid.Nil, fmt.Errorf("find a key: %w", err)
	}
	return found.Key, found.OrgID, nil
}
