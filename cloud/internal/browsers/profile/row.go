package profile

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/shared/fault"
)

// row is a row of the table.
type row struct {
	ID             uuid.UUID      `db:"id"`
	OrganizationID uuid.UUID      `db:"organization_id"`
	Name           string         `db:"name"`
	Notes          string         `db:"notes"`
	Tags           pq.StringArray `db:"tags"`
	BrowserVersion *int32         `db:"browser_version"`
	OS             *string        `db:"os"`
	Settings       string         `db:"settings"`
	ProxySecret    []byte         `db:"proxy_secret"`
	Certificates   *string        `db:"client_certificates"`
	ClientSecret   []byte         `db:"client_certificate_secret"`
	Persist        bool           `db:"persist"`
	Metadata       string         `db:"metadata"`
	Version        int64          `db:"version"`
	Ephemeral      bool           `db:"ephemeral"`
	LastUsedAt     *time.Time     `db:"last_used_at"`
	CreatedBy      *uuid.UUID     `db:"created_by"`
	CreatedAt      time.Time      `db:"created_at"`
	UpdatedAt      time.Time      `db:"updated_at"`
}

const columns = `id, organization_id, name, notes, tags, browser_version, os, settings, proxy_secret, client_certificates,
	client_certificate_secret, persist, metadata, version, ephemeral, last_used_at, created_by, created_at, updated_at`

// find returns a profile's row, and locks it if lock is set. A profile whose browser
// version is not set yet is not found.
func find(ctx context.Context, q sqlx.QueryerContext, orgID, id uuid.UUID, lock bool) (row, error) {
	query := `SELECT ` + columns + ` FROM profiles WHERE organization_id = $1 AND id = $2 AND browser_version IS NOT NULL`
	if lock {
		query += ` FOR UPDATE`
	}
	var r row
	err := sqlx.GetContext(ctx, q, &r, query, orgID, id)
	if errors.Is(err, sql.ErrNoRows) {
		return row{}, fault.Missing("profile")
	}
	if err != nil {
		return row{}, fmt.Errorf("read a profile: %w", err)
	}
	return r, nil
}

func (r *row) insert(ctx context.Context, tx *sqlx.Tx) error {
	_, err := tx.NamedExecContext(ctx, `INSERT INTO profiles (`+columns+`) VALUES (:id, :organization_id, :name, :notes, :tags,
		:browser_version, :os, :settings, :proxy_secret, :client_certificates, :client_certificate_secret,
		:persist, :metadata, :version, :ephemeral, :last_used_at, :created_by, :created_at, :updated_at)`, r)
	if err != nil {
		return fmt.Errorf("insert a profile: %w", err)
	}
	return nil
}

func (r *row) update(ctx context.Context, tx *sqlx.Tx) error {
	_, err := tx.NamedExecContext(ctx, `UPDATE profiles SET name = :name, notes = :notes, tags = :tags,
		browser_version = :browser_version, os = :os, settings = :settings, proxy_secret = :proxy_secret,
		client_certificates = :client_certificates, client_certificate_secret = :client_certificate_secret,
		persist = :persist, metadata = :metadata, version = :version, updated_at = :updated_at
		WHERE organization_id = :organization_id AND id = :id`, r)
	if err != nil {
		return fmt.Errorf("update a profile: %w", err)
	}
	return nil
}

// set writes the fields to the row.
func (r *row) set(f Fields) error {
	settings, err := json.Marshal(f.Settings)
	if err != nil {
		return fmt.Errorf("write the settings of a profile: %w", err)
	}
	if f.Metadata == nil {
		f.Metadata = map[string]string{}
	}
	metadata, err := json.Marshal(f.Metadata)
	if err != nil {
		return fmt.Errorf("write the metadata of a profile: %w", err)
	}
	r.Name, r.Notes, r.OS, r.Persist = f.Name, f.Notes, f.OS, f.Persist
	r.Tags = append(pq.StringArray{}, f.Tags...)
	r.Settings, r.Metadata = string(settings), string(metadata)
	r.BrowserVersion = nil
	if f.BrowserVersion != 0 {
		r.BrowserVersion = &f.BrowserVersion
	}
	return nil
}

// profile converts the row to a Profile.
func (r *row) profile() (Profile, error) {
	p := Profile{
		ID: r.ID, OrganizationID: r.OrganizationID,
		Fields:           Fields{Name: r.Name, Notes: r.Notes, Tags: r.Tags, OS: r.OS, Persist: r.Persist},
		HasProxyPassword: r.ProxySecret != nil,
		Version:          r.Version, Ephemeral: r.Ephemeral,
		LastUsedAt: r.LastUsedAt, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
	if r.BrowserVersion != nil {
		p.BrowserVersion = *r.BrowserVersion
	}
	if err := json.Unmarshal([]byte(r.Settings), &p.Settings); err != nil {
		return Profile{}, fmt.Errorf("read the settings of profile %s: %w", r.ID, err)
	}
	if err := json.Unmarshal([]byte(r.Metadata), &p.Metadata); err != nil {
		return Profile{}, fmt.Errorf("read the metadata of profile %s: %w", r.ID, err)
	}
	if r.Certificates != nil {
		if err := json.Unmarshal([]byte(*r.Certificates), &p.ClientCertificates); err != nil {
			return Profile{}, fmt.Errorf("read the client certificates of profile %s: %w", r.ID, err)
		}
	}
	return p, nil
}

// associatedData identifies the place of the row's secret, so that it cannot be
// decrypted as the secret of another profile.
func (r *row) associatedData() []byte { return append(r.OrganizationID[:], r.ID[:]...) }

// encryptPassword stores the proxy password in the row; nil or empty is none.
func (r *row) encryptPassword(s Sealer, password *string) error {
	r.ProxySecret = nil
	if password == nil || *password == "" {
		return nil
	}
	sealed, err := s.Seal([]byte(*password), r.associatedData())
	if err != nil {
		return fmt.Errorf("encrypt the proxy password of profile %s: %w", r.ID, err)
	}
	r.ProxySecret = sealed
	return nil
}

// decryptPassword returns the proxy password; nil for none.
func (r *row) decryptPassword(s Sealer) (*string, error) {
	if r.ProxySecret == nil {
		return nil, nil
	}
	plain, err := s.Open(r.ProxySecret, r.associatedData())
	if err != nil {
		return nil, fmt.Errorf("decrypt the proxy password of profile %s: %w", r.ID, err)
	}
	password := string(plain)
	return &password, nil
}
