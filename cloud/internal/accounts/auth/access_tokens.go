package auth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/cloud/internal/platform/secret"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

const (
	// accessTokenPrefix distinguishes access tokens from the tokens of sessions.
	accessTokenPrefix = "svct_"
	// defaultTokenLifetime and maxTokenLifetime are how long an access token is valid.
	defaultTokenLifetime = 90 * 24 * time.Hour
	maxTokenLifetime     = 365 * 24 * time.Hour
	// maxAccessTokens is the maximum number of valid tokens of a user in an organization,
	// and of a service account.
	maxAccessTokens = 50
)

// AccessToken is a token with which a program acts for a user or a service account in one
// organization, without the secret.
type AccessToken struct {
	ID               uuid.UUID      `db:"id"`
	OrgID            uuid.UUID      `db:"organization_id"`
	UserID           uuid.UUID      `db:"user_id"`            // zero for a token of a service account
	ServiceAccountID uuid.UUID      `db:"service_account_id"` // zero for a token of a user
	Name             string         `db:"name"`
	Scopes           pq.StringArray `db:"scopes"`
	LastFour         string         `db:"last_four"`
	CreatedAt        time.Time      `db:"created_at"`
	ExpiresAt        time.Time      `db:"expires_at"`
	LastUsedAt       *time.Time     `db:"last_used_at"` // exact to a minute; nil if never used
}

// tokenColumns are the columns of an AccessToken.
const tokenColumns = `id, organization_id, user_id, service_account_id, name, scopes, last_four, created_at, expires_at, last_used_at`

// subjectID returns the id of the user or of the service account.
func (t AccessToken) subjectID() uuid.UUID {
	if t.UserID != uuid.Nil {
		return t.UserID
	}
	return t.ServiceAccountID
}

// ofSubject selects the tokens of the user or service account $2 in the organization $1.
const ofSubject = ` FROM access_tokens WHERE organization_id = $1 AND (user_id = $2 OR service_account_id = $2)`

// NewAccessToken holds the properties of a new access token.
type NewAccessToken struct {
	Name      string
	Scopes    []string
	ExpiresAt *time.Time // nil: after defaultTokenLifetime
}

// CreateAccessToken creates a token of the caller for the caller's organization and
// returns it with the secret, which can't be retrieved again. Returns Validation for an
// expiry that is not in the future or too late, Unauthenticated if the caller's session
// has ended meanwhile, and Forbidden at the limit, with both numbers.
func (s *Service) CreateAccessToken(ctx context.Context, caller Caller, n NewAccessToken) (AccessToken, string, error) {
	return s.createToken(ctx, caller, AccessToken{OrgID: caller.OrgID, UserID: caller.UserID}, n)
}

// createToken creates a token of the subject of t.
func (s *Service) createToken(ctx context.Context, caller Caller, t AccessToken, n NewAccessToken) (AccessToken, string, error) {
	now := s.clock.Now()
	expires, err := tokenExpiry(n.ExpiresAt, now)
	if err != nil {
		return AccessToken{}, "", err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return AccessToken{}, "", fmt.Errorf("generate an access token ID: %w", err)
	}
	text := accessTokenPrefix + secret.NewToken()
	t.ID, t.Name, t.Scopes, t.LastFour, t.CreatedAt, t.ExpiresAt = id, n.Name, n.Scopes, text[len(text)-4:], now, expires
	details := map[string]any{"name": t.Name, "scopes": n.Scopes, "expiresAt": t.ExpiresAt}
	err = pg.InOrg(ctx, s.db, t.OrgID, func(tx *sqlx.Tx) error {
		if err := lockSession(ctx, tx, caller); err != nil {
			return err
		}
		if t.ServiceAccountID != uuid.Nil {
			account, err := lockForToken(ctx, tx, t)
			if err != nil {
				return err
			}
			details["serviceAccount"] = account.Name
		}
		if err := checkTokenLimit(ctx, tx, t); err != nil {
			return err
		}
		if err := t.insert(ctx, tx, text); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, t.OrgID, "accessToken.created", t.ID.String(), details)
	})
	if err != nil {
		return AccessToken{}, "", err
	}
	return t, text, nil
}

// tokenExpiry returns the expiry as it is stored.
func tokenExpiry(requested *time.Time, now time.Time) (time.Time, error) {
	if requested == nil {
		return now.Add(defaultTokenLifetime), nil
	}
	expires := requested.UTC().Truncate(time.Microsecond)
	if !expires.After(now) {
		return time.Time{}, fault.Field("expiresAt", "must be in the future")
	}
	if expires.After(now.Add(maxTokenLifetime)) {
		return time.Time{}, fault.Field("expiresAt", "must be within 365 days")
	}
	return expires, nil
}

// lockSession locks the caller's account and returns Unauthenticated if the session has
// ended. Otherwise a token could be created after a change of the password has revoked
// the tokens.
func lockSession(ctx context.Context, tx *sqlx.Tx, caller Caller) error {
	if err := lockUser(ctx, tx, caller.UserID); err != nil {
		return err
	}
	var exists bool
	if err := tx.GetContext(ctx, &exists, `SELECT EXISTS (SELECT FROM auth_sessions WHERE id = $1)`, caller.SessionID); err != nil {
		return fmt.Errorf("find the session of a user: %w", err)
	}
	if !exists {
		return errInvalidSession()
	}
	return nil
}

func lockUser(ctx context.Context, tx *sqlx.Tx, userID uuid.UUID) error {
	if _, err := tx.ExecContext(ctx, `SELECT FROM users WHERE id = $1 FOR NO KEY UPDATE`, userID); err != nil {
		return fmt.Errorf("lock a user: %w", err)
	}
	return nil
}

// checkTokenLimit requires the lock of the user or of the service account.
func checkTokenLimit(ctx context.Context, tx *sqlx.Tx, t AccessToken) error {
	var valid int
	err := tx.GetContext(ctx, &valid, `SELECT count(*)`+ofSubject+` AND expires_at > $3`, t.OrgID, t.subjectID(), t.CreatedAt)
	if err != nil {
		return fmt.Errorf("count the valid access tokens: %w", err)
	}
	if valid < maxAccessTokens {
		return nil
	}
	return fault.New(fault.Forbidden, "The limit of access tokens in this organization is reached. Revoke a token first.", fault.Detail{
		Field: "accessTokens", Code: fault.Custom, Message: "the limit is reached", Constraint: map[string]any{"current": valid, "limit": maxAccessTokens},
	})
}

func (t AccessToken) insert(ctx context.Context, tx *sqlx.Tx, text string) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO access_tokens (id, organization_id, user_id, service_account_id, name, scopes, token_hash, last_four, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		t.ID, t.OrgID, nullable(t.UserID), nullable(t.ServiceAccountID), t.Name, t.Scopes, secret.Hash(text), t.LastFour, t.CreatedAt, t.ExpiresAt)
	if pg.IsForeignKey(err, "access_tokens_membership_fkey") {
		return fault.New(fault.Forbidden, "You are no longer a member of the organization.")
	}
	if err != nil {
		return fmt.Errorf("insert an access token: %w", err)
	}
	return nil
}

// nullable returns null for the zero id.
func nullable(id uuid.UUID) uuid.NullUUID { return uuid.NullUUID{UUID: id, Valid: id != uuid.Nil} }

// AuthenticateToken returns the caller of a request with this access token. An unknown,
// revoked or expired token is the same Unauthenticated error. Each call asks the
// database, so a revocation takes effect at once. It updates when the token was last
// used, at most once a minute.
func (s *Service) AuthenticateToken(ctx context.Context, token string) (Caller, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var found struct {
		AccessToken
		AccountName   *string        `db:"account_name"`
		AccountScopes pq.StringArray `db:"account_scopes"`
	}
	now := s.clock.Now()
	err := s.System.GetContext(ctx, &found, `SELECT `+tokenColumns+`, account_name, account_scopes FROM access_tokens
		LEFT JOIN (SELECT id AS account_id, name AS account_name, scopes AS account_scopes FROM service_accounts) AS a ON account_id = service_account_id
		WHERE token_hash = $1 AND expires_at > $2`, secret.Hash(token), now)
	if errors.Is(err, sql.ErrNoRows) {
		return Caller{}, fault.New(fault.Unauthenticated, "The access token is invalid, revoked or expired.")
	}
	if err != nil {
		return Caller{}, fmt.Errorf("find an access token: %w", err)
	}
	t := found.AccessToken
	if err := s.noteTokenUse(ctx, t, now); err != nil {
		return Caller{}, err
	}
	caller := Caller{UserID: t.UserID, ActiveOrgID: t.OrgID, Token: &t}
	if found.AccountName != nil {
		caller.ServiceAccount = &ServiceAccount{ID: t.ServiceAccountID, OrgID: t.OrgID, Name: *found.AccountName, Scopes: found.AccountScopes}
	}
	return caller, nil
}

// noteTokenUse updates when a token and its service account were last used, unless that
// was within the last minute. The updates are two transactions, because the deletion of
// an account locks the account before its tokens.
func (s *Service) noteTokenUse(ctx context.Context, t AccessToken, now time.Time) error {
	longAgo := now.Add(-lastSeenPrecision)
	if t.LastUsedAt != nil && t.LastUsedAt.After(longAgo) {
		return nil
	}
	_, err := s.System.ExecContext(ctx, `UPDATE access_tokens SET last_used_at = $2
		WHERE id = $1 AND (last_used_at IS NULL OR last_used_at <= $3)`, t.ID, now, longAgo)
	if err == nil && t.ServiceAccountID != uuid.Nil {
		_, err = s.System.ExecContext(ctx, `UPDATE service_accounts SET last_used_at = $2
			WHERE id = $1 AND (last_used_at IS NULL OR last_used_at <= $3)`, t.ServiceAccountID, now, longAgo)
	}
	if err != nil {
		return fmt.Errorf("update when an access token was last used: %w", err)
	}
	return nil
}

// tokenOrder maps sort keys to columns. A token that was never used sorts before all
// others by time.
var tokenOrder = map[string]string{
	"createdAt": "created_at", "name": "name", "expiresAt": "expires_at",
	"lastUsedAt": "coalesce(last_used_at, '-infinity')",
}

// ListAccessTokens returns a page of the caller's tokens for the caller's organization.
// It sorts by createdAt, name, lastUsedAt or expiresAt.
func (s *Service) ListAccessTokens(ctx context.Context, caller Caller, r page.Request) (page.Page[AccessToken], error) {
	return s.listTokens(ctx, caller.OrgID, caller.UserID, r)
}

func (s *Service) listTokens(ctx context.Context, orgID, subjectID uuid.UUID, r page.Request) (page.Page[AccessToken], error) {
	result := page.Page[AccessToken]{Request: r, Items: []AccessToken{}}
	err := pg.InOrg(ctx, s.db, orgID, func(tx *sqlx.Tx) error {
		if err := tx.GetContext(ctx, &result.Total, `SELECT count(*)`+ofSubject, orgID, subjectID); err != nil {
			return fmt.Errorf("count the access tokens: %w", err)
		}
		err := tx.SelectContext(ctx, &result.Items,
			`SELECT `+tokenColumns+ofSubject+r.OrderBy(tokenOrder)+` LIMIT $3 OFFSET $4`, orgID, subjectID, r.Limit, r.Offset())
		if err != nil {
			return fmt.Errorf("list the access tokens: %w", err)
		}
		return nil
	})
	return result, err
}

// RevokeAccessToken deletes a token of the caller for the caller's organization. Returns
// NotFound for any other token.
func (s *Service) RevokeAccessToken(ctx context.Context, caller Caller, tokenID uuid.UUID) error {
	return pg.InOrg(ctx, s.db, caller.OrgID, func(tx *sqlx.Tx) error {
		return s.revokeToken(ctx, tx, caller.OrgID, caller.UserID, tokenID, map[string]any{})
	})
}

func (s *Service) revokeToken(ctx context.Context, tx *sqlx.Tx, orgID, subjectID, tokenID uuid.UUID, details map[string]any) error {
	var name string
	err := tx.GetContext(ctx, &name, `DELETE`+ofSubject+` AND id = $3 RETURNING name`, orgID, subjectID, tokenID)
	if errors.Is(err, sql.ErrNoRows) {
		return fault.Missing("access token")
	}
	if err != nil {
		return fmt.Errorf("revoke an access token: %w", err)
	}
	details["name"] = name
	return s.Audit.Record(ctx, tx, orgID, "accessToken.revoked", tokenID.String(), details)
}

// revokeAccessTokens deletes all tokens of a user, for a reason that the audit log
// contains. The transaction must have locked the user before. Afterwards it belongs to
// an organization, so it must be the last step on tables of organizations.
func (s *Service) revokeAccessTokens(ctx context.Context, tx *sqlx.Tx, audit Recorder, userID uuid.UUID, reason string) error {
	organizations, err := s.memberships.Organizations(ctx, userID)
	if err != nil {
		return err
	}
	for _, orgID := range organizations {
		if err := pg.EnterOrg(ctx, tx, orgID); err != nil {
			return err
		}
		if err := revokeTokensOf(ctx, tx, audit, orgID, userID, map[string]any{"reason": reason}); err != nil {
			return err
		}
	}
	return nil
}

// revokeTokensOf deletes all tokens of a user or of a service account in an organization.
func revokeTokensOf(ctx context.Context, tx *sqlx.Tx, audit Recorder, orgID, subjectID uuid.UUID, details map[string]any) error {
	var revoked []AccessToken
	if err := tx.SelectContext(ctx, &revoked, `DELETE`+ofSubject+` RETURNING `+tokenColumns, orgID, subjectID); err != nil {
		return fmt.Errorf("revoke access tokens: %w", err)
	}
	for _, t := range revoked {
		details["name"] = t.Name
		if err := audit.Record(ctx, tx, orgID, "accessToken.revoked", t.ID.String(), details); err != nil {
			return err
		}
	}
	return nil
}
