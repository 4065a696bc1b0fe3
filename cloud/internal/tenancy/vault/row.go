package vault

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// row is a row of the table.
type row struct {
	ID             uuid.UUID      `db:"id"`
	OrganizationID uuid.UUID      `db:"organization_id"`
	Name           string         `db:"name"`
	Username       *string        `db:"username"`
	Origins        pq.StringArray `db:"origins"`
	ProfileIDs     pq.StringArray `db:"profile_ids"` // nil: all profiles and specs
	PasswordSecret []byte         `db:"password_secret"`
	TOTPSecret     []byte         `db:"totp_secret"`
	CreatedAt      time.Time      `db:"created_at"`
	UpdatedAt      time.Time      `db:"updated_at"`
	LastUsedAt     *time.Time     `db:"last_used_at"`
}

const columns = `id, organization_id, name, username, origins, profile_ids, password_secret, totp_secret, created_at, updated_at, last_used_at`

// find returns a secret by its id or name. With lock, it is locked until tx ends.
func find(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, reference string, lock bool) (*row, error) {
	condition := `name = $2`
	if _, err := uuid.Parse(reference); err == nil { // names are not UUIDs
		condition = `id = $2`
	}
	if lock {
		condition += ` FOR UPDATE`
	}
	var r row
	err := tx.GetContext(ctx, &r, `SELECT `+columns+` FROM secrets WHERE organization_id = $1 AND `+condition, orgID, reference)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.Missing("secret")
	}
	if err != nil {
		return nil, fmt.Errorf("read a secret: %w", err)
	}
	return &r, nil
}

// write inserts or replaces the row. A name that another secret has is a Conflict.
func (r *row) write(ctx context.Context, tx *sqlx.Tx) error {
	_, err := tx.NamedExecContext(ctx, `
		INSERT INTO secrets (`+columns+`)
		VALUES (:id, :organization_id, :name, :username, :origins, :profile_ids, :password_secret, :totp_secret, :created_at, :updated_at, :last_used_at)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, username = excluded.username, origins = excluded.origins,
			profile_ids = excluded.profile_ids, password_secret = excluded.password_secret, totp_secret = excluded.totp_secret,
			updated_at = excluded.updated_at`, r)
	if pg.IsUnique(err, "secrets_name") {
		return fault.New(fault.Conflict, "Another secret of the organization has this name.",
			fault.Detail{Field: "name", Code: fault.Custom, Message: "is taken", Received: r.Name})
	}
	if err != nil {
		return fmt.Errorf("write a secret: %w", err)
	}
	return nil
}

// secret returns the row without its password and TOTP seed.
func (r *row) secret() (Secret, error) {
	s := Secret{
		Fields: Fields{Name: r.Name, Username: r.Username, Origins: r.Origins}, ID: r.ID,
		HasPassword: r.PasswordSecret != nil, HasTOTP: r.TOTPSecret != nil,
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
	if r.LastUsedAt != nil {
		s.LastUsedAt = new(r.LastUsedAt.UTC())
	}
	if r.ProfileIDs == nil {
		return s, nil
	}
	ids := make([]uuid.UUID, len(r.ProfileIDs))
	for i, text := range r.ProfileIDs {
		id, err := uuid.Parse(text)
		if err != nil {
			return Secret{}, fmt.Errorf("read the profiles of secret %s: %w", r.ID, err)
		}
		ids[i] = id
	}
	s.ProfileIDs = &ids
	return s, nil
}

// set stores the fields in the row.
func (r *row) set(f Fields) {
	r.Name, r.Username, r.Origins, r.ProfileIDs = f.Name, f.Username, f.Origins, nil
	if f.ProfileIDs == nil {
		return
	}
	r.ProfileIDs = pq.StringArray{}
	for _, id := range *f.ProfileIDs {
		r.ProfileIDs = append(r.ProfileIDs, id.String())
	}
}

// sealed returns the column of an encrypted field, and the associated data that
// identifies its place.
func (r *row) sealed(f Field) (column *[]byte, aad []byte) {
	column = &r.PasswordSecret
	if f == TOTP {
		column = &r.TOTPSecret
	}
	aad = append([]byte("secret "+string(f)+" "), r.OrganizationID[:]...)
	return column, append(aad, r.ID[:]...)
}

// encrypt stores a password or a TOTP seed in the row; nil removes it.
func (r *row) encrypt(s Sealer, f Field, plain *string) (err error) {
	column, aad := r.sealed(f)
	if plain == nil {
		*column = nil
		return nil
	}
	if *column, err = s.Seal([]byte(*plain), aad); err != nil {
		return fmt.Errorf("encrypt the %s of secret %s: %w", f, r.ID, err)
	}
	return nil
}

// decrypt returns a password or a TOTP seed; nil for none.
func (r *row) decrypt(s Sealer, f Field) (*string, error) {
	column, aad := r.sealed(f)
	if *column == nil {
		return nil, nil
	}
	plain, err := s.Open(*column, aad)
	if err != nil {
		return nil, fmt.Errorf("decrypt the %s of secret %s: %w", f, r.ID, err)
	}
	return new(string(plain)), nil
}
