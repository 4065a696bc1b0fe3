package webhook

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// row is an endpoint in the table, without the columns of its state of sending.
type row struct {
	ID             uuid.UUID      `db:"id"`
	OrganizationID uuid.UUID      `db:"organization_id"`
	URL            string         `db:"url"`
	Description    *string        `db:"description"`
	Types          pq.StringArray `db:"types"` // nil: all
	Secret         []byte         `db:"secret"`
	OldSecret      []byte         `db:"old_secret"`
	OldSecretUntil *time.Time     `db:"old_secret_until"`
	Enabled        bool           `db:"enabled"`
	DisabledReason *string        `db:"disabled_reason"`
	FailingSince   *time.Time     `db:"failing_since"`
	CreatedAt      time.Time      `db:"created_at"`
	UpdatedAt      time.Time      `db:"updated_at"`
}

const columns = `id, organization_id, url, description, types, secret, old_secret, old_secret_until, enabled, disabled_reason, failing_since,
	created_at, updated_at`

// forChange ends a statement that locks endpoints until tx ends. It does not block the
// publisher, which only keeps them from being deleted.
const forChange = ` FOR NO KEY UPDATE`

// find returns an endpoint. lock ends the statement.
func find(ctx context.Context, tx *sqlx.Tx, orgID, id uuid.UUID, lock string) (*row, error) {
	var r row
	err := tx.GetContext(ctx, &r, `SELECT `+columns+` FROM webhook_endpoints WHERE organization_id = $1 AND id = $2`+lock, orgID, id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.Missing("endpoint")
	}
	if err != nil {
		return nil, fmt.Errorf("read an endpoint: %w", err)
	}
	return &r, nil
}

// write inserts or replaces the row. It ends a pause, so that a changed endpoint is tried
// at once.
func (r *row) write(ctx context.Context, tx *sqlx.Tx) error {
	_, err := tx.NamedExecContext(ctx, `
		INSERT INTO webhook_endpoints (`+columns+`)
		VALUES (:id, :organization_id, :url, :description, :types, :secret, :old_secret, :old_secret_until, :enabled, :disabled_reason,
			:failing_since, :created_at, :updated_at)
		ON CONFLICT (id) DO UPDATE SET url = excluded.url, description = excluded.description, types = excluded.types,
			secret = excluded.secret, old_secret = excluded.old_secret, old_secret_until = excluded.old_secret_until,
			enabled = excluded.enabled, disabled_reason = excluded.disabled_reason, failing_since = excluded.failing_since,
			updated_at = excluded.updated_at, paused_until = '-infinity'`, r)
	if err != nil {
		return fmt.Errorf("write an endpoint: %w", err)
	}
	return nil
}

// set sets the fields. An endpoint that is enabled, or has another URL, is not failing.
func (r *row) set(f Fields) {
	if f.URL != r.URL || f.Enabled && !r.Enabled {
		r.FailingSince = nil
	}
	if f.Enabled {
		r.DisabledReason = nil
	}
	r.URL, r.Description, r.Enabled, r.Types = f.URL, f.Description, f.Enabled, nil
	if f.Types != nil {
		r.Types = *f.Types
	}
}

// endpoint returns the row without its secrets.
func (r *row) endpoint(now time.Time) Endpoint {
	e := Endpoint{
		Fields: Fields{URL: r.URL, Description: r.Description, Enabled: r.Enabled}, ID: r.ID, DisabledReason: r.DisabledReason,
		FailingSince: inUTC(r.FailingSince), CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
	if r.Types != nil {
		e.Types = new([]string(r.Types))
	}
	if r.OldSecretUntil != nil && r.OldSecretUntil.After(now) {
		e.OldSecretUntil = inUTC(r.OldSecretUntil)
	}
	return e
}

func inUTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC())
}

// newSecret returns a secret in the format of Standard Webhooks, with 256 random bits.
func newSecret() string {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never returns an error
	return "whsec_" + base64.StdEncoding.EncodeToString(random)
}

// associatedData binds a secret to its endpoint. Both secrets have the same, so that a
// rotation moves the encrypted secret.
func associatedData(orgID, id uuid.UUID) []byte {
	return []byte("webhook:" + orgID.String() + ":" + id.String())
}

func (r *row) seal(sealer Sealer, secret string) (err error) {
	if r.Secret, err = sealer.Seal([]byte(secret), associatedData(r.OrganizationID, r.ID)); err != nil {
		return fmt.Errorf("encrypt the secret of an endpoint: %w", err)
	}
	return nil
}

func (r *row) open(sealer Sealer, sealed []byte) (string, error) {
	plain, err := sealer.Open(sealed, associatedData(r.OrganizationID, r.ID))
	if err != nil {
		return "", fmt.Errorf("decrypt the secret of endpoint %s: %w", r.ID, err)
	}
	return string(plain), nil
}

// Reencrypt re-encrypts the secrets of all organizations with the current key, so that
// older keys can be removed. It returns the number of endpoints. A secret that cannot be
// decrypted is an error and stays unchanged.
func Reencrypt(ctx context.Context, system *sqlx.DB, sealer Sealer) (total int, err error) {
	return pg.InBatches(ctx, system, "the endpoints", `SELECT `+columns+` FROM webhook_endpoints WHERE id > $1 ORDER BY id LIMIT $2`+forChange,
		func(r *row) uuid.UUID { return r.ID },
		func(ctx context.Context, tx *sqlx.Tx, r *row) error {
			secret, err := r.open(sealer, r.Secret)
			if err != nil {
				return err
			}
			if r.OldSecret != nil {
				old, err := r.open(sealer, r.OldSecret)
				if err != nil {
					return err
				}
				if err := r.seal(sealer, old); err != nil {
					return err
				}
				r.OldSecret = r.Secret
			}
			if err := r.seal(sealer, secret); err != nil {
				return err
			}
			return r.write(ctx, tx)
		})
}

// Check decrypts the secrets of all organizations. It returns their number, and an error
// for each that cannot be decrypted.
func Check(ctx context.Context, system *sqlx.DB, sealer Sealer) (total int, unreadable []error, err error) {
	var rows []row
	if err := system.SelectContext(ctx, &rows, `SELECT `+columns+` FROM webhook_endpoints`); err != nil {
		return 0, nil, fmt.Errorf("read the endpoints: %w", err)
	}
	for _, r := range rows {
		for _, sealed := range [][]byte{r.Secret, r.OldSecret} {
			if sealed == nil {
				continue
			}
			total++
			if _, err := r.open(sealer, sealed); err != nil {
				unreadable = append(unreadable, err)
			}
		}
	}
	return total, unreadable, nil
}
