package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

// endpointOrder maps sortBy of the API to columns.
var endpointOrder = map[string]string{"createdAt": "created_at", "updatedAt": "updated_at", "url": "url"}

// Create creates an endpoint and returns it with its secret, which can't be retrieved
// again. Errors: Validation; Forbidden at the limit, with both numbers.
func (s *Service) Create(ctx context.Context, orgID uuid.UUID, f Fields) (Endpoint, string, error) {
	if err := s.checkURL(f.URL); err != nil {
		return Endpoint{}, "", err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Endpoint{}, "", fmt.Errorf("generate an endpoint ID: %w", err)
	}
	now, secret := s.Clock.Now(), newSecret()
	r := &row{ID: id, OrganizationID: orgID, CreatedAt: now, UpdatedAt: now}
	r.set(f)
	if err := r.seal(s.Sealer, secret); err != nil {
		return Endpoint{}, "", err
	}
	err = pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		if err := checkLimit(ctx, tx, orgID); err != nil {
			return err
		}
		if err := r.write(ctx, tx); err != nil {
			return err
		}
		return s.record(ctx, tx, created, r, nil)
	})
	if err != nil {
		return Endpoint{}, "", err
	}
	return r.endpoint(now), secret, nil
}

// checkLimit returns Forbidden if the organization has maxEndpoints endpoints.
func checkLimit(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) error {
	count, err := pg.CountForLimit(ctx, tx, "webhook_endpoints", orgID)
	if err != nil || count < maxEndpoints {
		return err
	}
	return fault.New(fault.Forbidden, "The organization has reached its limit of endpoints. Delete an endpoint first.", fault.Detail{
		Field: "endpoints", Code: fault.Custom, Message: "the limit is reached", Constraint: map[string]any{"current": count, "limit": maxEndpoints},
	})
}

// checkURL returns Validation for a URL to which no request can be sent. Its addresses are
// checked when they are dialed.
func (s *Service) checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "":
		return fault.Field("url", "must be a URL with a host, without a user and a fragment")
	case u.Scheme == "https" || u.Scheme == "http" && s.AllowHTTP:
		return nil
	}
	return fault.Field("url", "must begin with https://")
}

// Get returns an endpoint. Errors: NotFound.
func (s *Service) Get(ctx context.Context, orgID, id uuid.UUID) (found Endpoint, err error) {
	err = pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		r, err := find(ctx, tx, orgID, id, "")
		if err == nil {
			found = r.endpoint(s.Clock.Now())
		}
		return err
	})
	return found, err
}

// List returns a page of the organization's endpoints.
func (s *Service) List(ctx context.Context, orgID uuid.UUID, req page.Request) (page.Page[Endpoint], error) {
	result := page.Page[Endpoint]{Request: req, Items: []Endpoint{}}
	var rows []row
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		if err := tx.GetContext(ctx, &result.Total, `SELECT count(*) FROM webhook_endpoints WHERE organization_id = $1`, orgID); err != nil {
			return fmt.Errorf("count the endpoints of a list: %w", err)
		}
		rows = nil
		err := tx.SelectContext(ctx, &rows, `SELECT `+columns+` FROM webhook_endpoints WHERE organization_id = $1`+req.OrderBy(endpointOrder)+
			` LIMIT $2 OFFSET $3`, orgID, req.Limit, req.Offset())
		if err != nil {
			return fmt.Errorf("list the endpoints: %w", err)
		}
		return nil
	})
	for i := range rows {
		result.Items = append(result.Items, rows[i].endpoint(s.Clock.Now()))
	}
	return result, err
}

// Update applies a JSON merge patch that passed the document's validation: absent fields
// stay unchanged, null clears, lists are replaced. The errors are those of Create, and
// NotFound.
func (s *Service) Update(ctx context.Context, orgID, id uuid.UUID, patch json.RawMessage) (Endpoint, error) {
	var changes map[string]json.RawMessage
	if err := json.Unmarshal(patch, &changes); err != nil {
		return Endpoint{}, fmt.Errorf("read the patch of an endpoint: %w", err)
	}
	return s.change(ctx, orgID, id, func(tx *sqlx.Tx, r *row) error {
		fields := r.endpoint(s.Clock.Now()).Fields
		if err := json.Unmarshal(patch, &fields); err != nil {
			return fmt.Errorf("apply the patch of an endpoint: %w", err)
		}
		if err := s.checkURL(fields.URL); err != nil {
			return err
		}
		r.set(fields)
		return s.record(ctx, tx, updated, r, map[string]any{"fields": slices.Sorted(maps.Keys(changes))})
	})
}

// RotateSecret replaces the secret of an endpoint and returns the new one, which can't be
// retrieved again. For 24 hours, requests are signed with the old one too. Errors: NotFound.
func (s *Service) RotateSecret(ctx context.Context, orgID, id uuid.UUID) (Endpoint, string, error) {
	secret := newSecret()
	endpoint, err := s.change(ctx, orgID, id, func(tx *sqlx.Tx, r *row) error {
		r.OldSecret, r.OldSecretUntil = r.Secret, new(s.Clock.Now().Add(rotationTime))
		if err := r.seal(s.Sealer, secret); err != nil {
			return err
		}
		return s.record(ctx, tx, rotated, r, nil)
	})
	return endpoint, secret, err
}

// change changes an endpoint.
func (s *Service) change(ctx context.Context, orgID, id uuid.UUID, apply func(tx *sqlx.Tx, r *row) error) (result Endpoint, err error) {
	err = pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		r, err := find(ctx, tx, orgID, id, forChange)
		if err != nil {
			return err
		}
		r.UpdatedAt = s.Clock.Now()
		if err := apply(tx, r); err != nil {
			return err
		}
		result = r.endpoint(r.UpdatedAt)
		return r.write(ctx, tx)
	})
	return result, err
}

// Delete deletes an endpoint and its deliveries. Errors: NotFound.
func (s *Service) Delete(ctx context.Context, orgID, id uuid.UUID) error {
	return pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) error {
		r, err := find(ctx, tx, orgID, id, ` FOR UPDATE`)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM webhook_endpoints WHERE organization_id = $1 AND id = $2`, orgID, id); err != nil {
			return fmt.Errorf("delete an endpoint: %w", err)
		}
		return s.record(ctx, tx, deleted, r, nil)
	})
}

// record records a change of the endpoint. Of the URL it names the host only, because
// the path may contain a secret.
func (s *Service) record(ctx context.Context, tx *sqlx.Tx, action string, r *row, more map[string]any) error {
	details := map[string]any{}
	if u, err := url.Parse(r.URL); err == nil {
		details["host"] = u.Host
	}
	maps.Copy(details, more)
	return s.Audit.Record(ctx, tx, r.OrganizationID, action, r.ID.String(), details)
}
