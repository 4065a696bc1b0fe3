package license

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// EndOrganization gives up everything that an organization holds, in the
// transaction that removes it. The locks come in the house's order: machines,
// slots, the counter last. With that go the slots that were made meanwhile.
func (s *Service) EndOrganization(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) error {
	for _, statement := range []string{
		`DELETE FROM license_machines WHERE org_id = $1`,
		`DELETE FROM license_slots WHERE org_id = $1`,
		`DELETE FROM license_org WHERE org_id = $1`,
	} {
		if _, err := tx.ExecContext(ctx, statement, orgID); err != nil {
			return fmt.Errorf("give up the license of an organization: %w", err)
		}
	}
	return nil
}
