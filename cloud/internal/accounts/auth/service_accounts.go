package auth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

// maxServiceAccounts is the maximum number of service accounts of an organization.
const maxServiceAccounts = 50

// ServiceAccount is an identity of an organization that belongs to no person. It acts
// with access tokens, within its scopes.
type ServiceAccount struct {
	ID         uuid.UUID      `db:"id"`
	OrgID      uuid.UUID      `db:"organization_id"`
	Name       string         `db:"name"`
	Scopes     pq.StringArray `db:"scopes"`
	Disabled   bool           `db:"disabled"`
	CreatedBy  uuid.NullUUID  `db:"created_by"`
	CreatedAt  time.Time      `db:"created_at"`
	LastUsedAt *time.Time     `db:"last_used_at"` // exact to a minute; nil if never used
}

// accountFields are the columns of a ServiceAccount.
const accountFields = `id, organization_id, name, scopes, disabled, created_by, created_at, last_used_at`

// ServiceAccountChange is an update of a service account; nil fields stay unchanged.
type ServiceAccountChange struct {
	Name     *string
	Scopes   []string
	Disabled *bool
}

// permits reports whether the scopes include the scope. Writing includes reading.
func permits(scopes []string, scope string) bool {
	resource, isRead := strings.CutSuffix(scope, ":read")
	return slices.Contains(scopes, scope) || isRead && slices.Contains(scopes, resource+":write")
}

// Permits reports whether the account has the scope.
func (a ServiceAccount) Permits(scope string) bool { return permits(a.Scopes, scope) }

// Permits reports whether the token has the scope.
func (t AccessToken) Permits(scope string) bool { return permits(t.Scopes, scope) }

// CreateServiceAccount creates a service account of the caller's organization. Returns
// Conflict for a name that another account has, and Forbidden at the limit, with both
// numbers.
func (s *Service) CreateServiceAccount(ctx context.Context, caller Caller, name string, scopes []string) (ServiceAccount, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return ServiceAccount{}, fmt.Errorf("generate a service account ID: %w", err)
	}
	a := ServiceAccount{ID: id, OrgID: caller.OrgID, Name: name, Scopes: scopes, CreatedBy: nullable(caller.UserID), CreatedAt: s.clock.Now()}
	err = pg.InOrg(ctx, s.db, a.OrgID, func(tx *sqlx.Tx) error {
		if err := checkAccountLimit(ctx, tx, a.OrgID); err != nil {
			return err
		}
		_, err := tx.NamedExecContext(ctx, `
			INSERT INTO service_accounts (id, organization_id, name, scopes, created_by, created_at)
			VALUES (:id, :organization_id, :name, :scopes, :created_by, :created_at)`, a)
		if err != nil {
			return accountError(err, &name, "create a service account")
		}
		return s.Audit.Record(ctx, tx, a.OrgID, "serviceAccount.created", a.ID.String(), map[string]any{"name": name, "scopes": scopes})
	})
	if err != nil {
		return ServiceAccount{}, err
	}
	return a, nil
}

// checkAccountLimit returns Forbidden if the organization has maxServiceAccounts accounts.
func checkAccountLimit(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) error {
	count, err := pg.CountForLimit(ctx, tx, "service_accounts", orgID)
	if err != nil || count < maxServiceAccounts {
		return err
	}
	return fault.New(fault.Forbidden, "The organization has reached its limit of service accounts. Delete an account first.", fault.Detail{
		Field: "serviceAccounts", Code: fault.Custom, Message: "the limit is reached", Constraint: map[string]any{"current": count, "limit": maxServiceAccounts},
	})
}

func accountError(err error, name *string, doing string) error {
	if pg.IsUnique(err, "service_accounts_name") {
		return fault.New(fault.Conflict, "Another service account has this name.",
			fault.Detail{Field: "name", Code: fault.Custom, Message: "is taken", Received: name})
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// accountOrder maps sort keys to columns. An account that was never used sorts before all
// others by time.
var accountOrder = map[string]string{"createdAt": "created_at", "name": "name", "lastUsedAt": "coalesce(last_used_at, '-infinity')"}

// ListServiceAccounts returns a page of the organization's service accounts. It sorts by
// createdAt, name or lastUsedAt.
func (s *Service) ListServiceAccounts(ctx context.Context, orgID uuid.UUID, r page.Request) (page.Page[ServiceAccount], error) {
	const all = ` FROM service_accounts WHERE organization_id = $1`
	result := page.Page[ServiceAccount]{Request: r, Items: []ServiceAccount{}}
	err := pg.InOrg(ctx, s.db, orgID, func(tx *sqlx.Tx) error {
		if err := tx.GetContext(ctx, &result.Total, `SELECT count(*)`+all, orgID); err != nil {
			return fmt.Errorf("count the service accounts: %w", err)
		}
		err := tx.SelectContext(ctx, &result.Items, `SELECT `+accountFields+all+r.OrderBy(accountOrder)+` LIMIT $2 OFFSET $3`, orgID, r.Limit, r.Offset())
		if err != nil {
			return fmt.Errorf("list the service accounts: %w", err)
		}
		return nil
	})
	return result, err
}

// ServiceAccount returns a service account of the organization, or NotFound.
func (s *Service) ServiceAccount(ctx context.Context, orgID, id uuid.UUID) (ServiceAccount, error) {
	var a ServiceAccount
	err := pg.InOrg(ctx, s.db, orgID, func(tx *sqlx.Tx) (err error) {
		a, err = findAccount(ctx, tx, orgID, id, "")
		return err
	})
	return a, err
}

// findAccount returns a service account, or NotFound. lock ends the statement.
func findAccount(ctx context.Context, tx *sqlx.Tx, orgID, id uuid.UUID, lock string) (ServiceAccount, error) {
	var a ServiceAccount
	err := tx.GetContext(ctx, &a, `SELECT `+accountFields+` FROM service_accounts WHERE organization_id = $1 AND id = $2`+lock, orgID, id)
	if errors.Is(err, sql.ErrNoRows) {
		return a, fault.Missing("service account")
	}
	if err != nil {
		return a, fmt.Errorf("find a service account: %w", err)
	}
	return a, nil
}

// UpdateServiceAccount changes a service account and returns it. It revokes the tokens of
// an account that it disables. Returns NotFound for an unknown account and Conflict for a
// name that another account has.
func (s *Service) UpdateServiceAccount(ctx context.Context, orgID, id uuid.UUID, c ServiceAccountChange) (ServiceAccount, error) {
	var a ServiceAccount
	err := pg.InOrg(ctx, s.db, orgID, func(tx *sqlx.Tx) (err error) {
		if _, err = findAccount(ctx, tx, orgID, id, ` FOR NO KEY UPDATE`); err != nil {
			return err
		}
		err = tx.GetContext(ctx, &a, `
			UPDATE service_accounts SET name = coalesce($3, name), scopes = coalesce($4, scopes), disabled = coalesce($5, disabled)
			WHERE organization_id = $1 AND id = $2 RETURNING `+accountFields, orgID, id, c.Name, pq.StringArray(c.Scopes), c.Disabled)
		if err != nil {
			return accountError(err, c.Name, "change a service account")
		}
		if a.Disabled {
			details := map[string]any{"serviceAccount": a.Name, "reason": "serviceAccountDisabled"}
			if err := revokeTokensOf(ctx, tx, s.Audit, orgID, id, details); err != nil {
				return err
			}
		}
		return s.Audit.Record(ctx, tx, orgID, "serviceAccount.updated", id.String(),
			map[string]any{"name": a.Name, "scopes": a.Scopes, "disabled": a.Disabled})
	})
	return a, err
}

// DeleteServiceAccount deletes a service account and revokes its tokens. Returns NotFound
// for an unknown account.
func (s *Service) DeleteServiceAccount(ctx context.Context, orgID, id uuid.UUID) error {
	return pg.InOrg(ctx, s.db, orgID, func(tx *sqlx.Tx) error {
		a, err := findAccount(ctx, tx, orgID, id, ` FOR UPDATE`)
		if err != nil {
			return err
		}
		details := map[string]any{"serviceAccount": a.Name, "reason": "serviceAccountDeleted"}
		if err := revokeTokensOf(ctx, tx, s.Audit, orgID, id, details); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM service_accounts WHERE organization_id = $1 AND id = $2`, orgID, id); err != nil {
			return fmt.Errorf("delete a service account: %w", err)
		}
		return s.Audit.Record(ctx, tx, orgID, "serviceAccount.deleted", id.String(), map[string]any{"name": a.Name})
	})
}

// CreateServiceAccountToken creates a token of a service account of the caller's
// organization and returns it with the secret, which can't be retrieved again. The errors
// are those of CreateAccessToken, NotFound for an unknown account, Conflict for a disabled
// one, and Validation for scopes that the account does not have.
func (s *Service) CreateServiceAccountToken(ctx context.Context, caller Caller, id uuid.UUID, n NewAccessToken) (AccessToken, string, error) {
	return s.createToken(ctx, caller, AccessToken{OrgID: caller.OrgID, ServiceAccountID: id}, n)
}

// lockForToken locks the service account of a new token, and checks that the account may
// have it.
func lockForToken(ctx context.Context, tx *sqlx.Tx, t AccessToken) (ServiceAccount, error) {
	a, err := findAccount(ctx, tx, t.OrgID, t.ServiceAccountID, ` FOR NO KEY UPDATE`)
	if err != nil {
		return a, err
	}
	if a.Disabled {
		return a, fault.New(fault.Conflict, "The service account is disabled. Enable it first.")
	}
	for _, scope := range t.Scopes {
		if !a.Permits(scope) {
			return a, fault.Field("scopes", "must be scopes of the service account: "+strings.Join(a.Scopes, ", "))
		}
	}
	return a, nil
}

// ListServiceAccountTokens returns a page of the tokens of a service account, or NotFound.
// It sorts as ListAccessTokens.
func (s *Service) ListServiceAccountTokens(ctx context.Context, orgID, id uuid.UUID, r page.Request) (page.Page[AccessToken], error) {
	if _, err := s.ServiceAccount(ctx, orgID, id); err != nil {
		return page.Page[AccessToken]{}, err
	}
	return s.listTokens(ctx, orgID, id, r)
}

// RevokeServiceAccountToken deletes a token of a service account. Returns NotFound for any
// other token.
func (s *Service) RevokeServiceAccountToken(ctx context.Context, orgID, id, tokenID uuid.UUID) error {
	return pg.InOrg(ctx, s.db, orgID, func(tx *sqlx.Tx) error {
		a, err := findAccount(ctx, tx, orgID, id, "")
		if err != nil {
			return err
		}
		return s.revokeToken(ctx, tx, orgID, id, tokenID, map[string]any{"serviceAccount": a.Name})
	})
}
