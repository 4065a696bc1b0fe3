package profile

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
)

const (
	maxName    = 128 // characters
	copySuffix = " (copy)"
)

// Create creates a profile; createdBy is a user, or zero for none. Returns a Forbidden fault caused
// by a LimitError at the profile limit (specification 7.3.1), and NotFound if the
// organization is deleted meanwhile.
func (s *Service) Create(ctx context.Context, orgID, createdBy uuid.UUID, draft Draft) (Profile, error) {
	clients, problems, err := s.decode(ctx, draft.ClientCertificates)
	if err != nil {
		return Profile{}, err
	}
	if err := draft.check("", problems...); err != nil {
		return Profile{}, err
	}
	r, err := s.newRow(orgID, createdBy, draft)
	if err != nil {
		return Profile{}, err
	}
	if err := r.encryptCertificates(s.Sealer, clients); err != nil {
		return Profile{}, err
	}
	err = pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		if err := s.insertWithinLimit(ctx, tx, r); err != nil {
			return err
		}
		return s.record(ctx, tx, created, r, nil)
	})
	if err != nil {
		return Profile{}, err
	}
	return r.profile()
}

// Duplicate creates a profile with the same settings, including the proxy password and
// the client certificates. If name is nil, " (copy)" is appended to the old name. The limit is
// that of Create.
func (s *Service) Duplicate(ctx context.Context, orgID, id, createdBy uuid.UUID, name *string) (Profile, error) {
	var r *row
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		source, err := find(ctx, tx, orgID, id, false)
		if err != nil {
			return err
		}
		draft, err := s.draftOf(&source)
		if err != nil {
			return err
		}
		if draft.Name = copyName(source.Name); name != nil {
			draft.Name = *name
		}
		if r, err = s.newRow(orgID, createdBy, draft); err != nil {
			return err
		}
		if err := s.copyCertificates(r, &source); err != nil {
			return err
		}
		if err := s.insertWithinLimit(ctx, tx, r); err != nil {
			return err
		}
		return s.record(ctx, tx, duplicated, r, copyOf(id))
	})
	if err != nil {
		return Profile{}, err
	}
	return r.profile()
}

func copyName(name string) string {
	characters := []rune(name)
	return string(characters[:min(len(characters), maxName-len(copySuffix))]) + copySuffix
}

func (s *Service) draftOf(r *row) (Draft, error) {
	p, err := r.profile()
	if err != nil {
		return Draft{}, err
	}
	password, err := r.decryptPassword(s.Sealer)
	return Draft{Fields: p.Fields, ProxyPassword: password}, err
}

func (s *Service) newRow(orgID, createdBy uuid.UUID, draft Draft) (*row, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("generate a profile ID: %w", err)
	}
	now := s.Clock.Now()
	r := &row{ID: id, OrganizationID: orgID, Version: 1, CreatedAt: now, UpdatedAt: now}
	if createdBy != uuid.Nil {
		r.CreatedBy = &createdBy
	}
	if err := r.set(draft.Fields); err != nil {
		return nil, err
	}
	return r, r.encryptPassword(s.Sealer, draft.ProxyPassword)
}

// insertWithinLimit inserts a profile if the organization is below its profileLimit.
// All inserts of an organization wait for the same lock, and the count is a separate
// statement, so it sees the committed profiles.
func (s *Service) insertWithinLimit(ctx context.Context, tx *sqlx.Tx, r *row) error {
	limit, err := s.Limits.LockProfileLimit(ctx, tx, r.OrganizationID)
	if err != nil {
		return err
	}
	if limit != nil {
		counts, err := countProfiles(ctx, tx, r.OrganizationID)
		if err != nil {
			return err
		}
		if count := counts.Listed + counts.Ephemeral; count >= *limit {
			return errLimitReached(count, *limit)
		}
	}
	return r.insert(ctx, tx)
}

// profileCounts is the condition of profiles that count toward the profileLimit.
type profileCounts struct {
	Listed    int `db:"listed"`
	Ephemeral int `db:"ephemeral"`
}

func countProfiles(ctx context.Context, q sqlx.QueryerContext, orgID uuid.UUID) (profileCounts, error) {
	var n profileCounts
	err := sqlx.GetContext(ctx, q, &n, `
		SELECT count(*) FILTER (WHERE NOT ephemeral) AS listed, count(*) FILTER (WHERE ephemeral) AS ephemeral
		FROM profiles WHERE organization_id = $1 AND given_up_at IS NULL`, orgID)
	if err != nil {
		return profileCounts{}, fmt.Errorf("count the profiles: %w", err)
	}
	return n, nil
}
