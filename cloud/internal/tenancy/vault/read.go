package vault

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/page"
)

// sortColumns maps sortBy of the API to sort expressions. A secret that was never used
// sorts before all used ones.
var sortColumns = map[string]string{
	"createdAt":  "created_at",
	"updatedAt":  "updated_at",
	"lastUsedAt": "COALESCE(last_used_at, '-infinity')",
	"name":       "name",
}

// Get returns a secret. Errors: NotFound.
func (s *Service) Get(ctx context.Context, orgID, id uuid.UUID) (found Secret, err error) {
	err = pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		r, err := find(ctx, tx, orgID, id.String(), false)
		if err != nil {
			return err
		}
		found, err = r.secret()
		return err
	})
	return found, err
}

// List returns a page of the organization's secrets.
func (s *Service) List(ctx context.Context, orgID uuid.UUID, req page.Request) (page.Page[Secret], error) {
	result := page.Page[Secret]{Request: req, Items: []Secret{}}
	var rows []row
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		if err := tx.GetContext(ctx, &result.Total, `SELECT count(*) FROM secrets WHERE organization_id = $1`, orgID); err != nil {
			return fmt.Errorf("count the secrets of a list: %w", err)
		}
		rows = nil
		err := tx.SelectContext(ctx, &rows, `SELECT `+columns+` FROM secrets WHERE organization_id = $1`+req.OrderBy(sortColumns)+
			` LIMIT $2 OFFSET $3`, orgID, req.Limit, req.Offset())
		if err != nil {
			return fmt.Errorf("list the secrets: %w", err)
		}
		return nil
	})
	if err != nil {
		return result, err
	}
	for i := range rows {
		item, err := rows[i].secret()
		if err != nil {
			return result, err
		}
		result.Items = append(result.Items, item)
	}
	return result, nil
}
