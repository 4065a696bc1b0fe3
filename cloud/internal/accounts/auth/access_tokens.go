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
	// maxAccessTokens is the maximum number of valid tokens of a user in an organization.
	maxAccessTokens = 50
)

// AccessToken is a token with which a program acts for a user in one organization,
// without the secret.
type AccessToken struct {
	ID         uuid.UUID      `db:"id"`
	OrgID      uuid.UUID      `db:"organization_id"`
	UserID     uuid.UUID      `db:"user_id"`
	Name       string         `db:"name"`
	Scopes     pq.StringArray `db:"scopes"`
	LastFour   string         `db:"last_four"`
	CreatedAt  time.Time      `db:"created_at"`
	ExpiresAt  time.Time      `db:"expires_at"`
	LastUsedAt *time.Time     `db:"last_used_at"` // exact to a minute; nil if never used
}

// tokenColumns are the columns of an AccessToken.
const tokenColumns = `id, organization_id, user_id, name, scopes, last_four, created_at, expires_at, last_used_at`

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
	t := AccessToken{
		ID: id, OrgID: caller.OrgID, UserID: caller.UserID, Name: n.Name, Scopes: n.Scopes,
		LastFour: text[len(text)-4:], CreatedAt: now, ExpiresAt: expires,
	}
	err = pg.InOrg(ctx, s.db, t.OrgID, func(tx *sqlx.Tx) error {
		if err := lockSession(ctx, tx, caller); err != nil {
			return err
		}
		if err := checkTokenLimit(ctx, tx, t); err != nil {
			return err
		}
		if err := t.insert(ctx, tx, text); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, t.OrgID, "accessToken.created", t.ID.String(),
			map[string]any{"name": t.Name, "scopes": n.Scopes, "expiresAt": t.ExpiresAt})
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

// checkTokenLimit requires the lock of the user.
func checkTokenLimit(ctx context.Context, tx *sqlx.Tx, t AccessToken) error {
	var valid int
	err := tx.GetContext(ctx, &valid, `SELECT count(*) FROM access_tokens
		WHERE organization_id = $1 AND user_id = $2 AND expires_at > $3`, t.OrgID, t.UserID, t.CreatedAt)
	if err != nil {
		return fmt.Errorf("count the access tokens of a user: %w", err)
	}
	if valid < maxAccessTokens {
		return nil
	}
	return fault.New(fault.Forbidden, "You have reached the limit of access tokens in this organization. Revoke a token first.", fault.Detail{
		Field: "accessTokens", Code: fault.Custom, Message: "the limit is reached", Constraint: map[string]any{"current": valid, "limit": maxAccessTokens},
	})
}

func (t AccessToken) insert(ctx context.Context, tx *sqlx.Tx, text string) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO access_tokens (id, organization_id, user_id, name, scopes, token_hash, last_four, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		t.ID, t.OrgID, t.UserID, t.Name, t.Scopes, secret.Hash(text), t.LastFour, t.CreatedAt, t.ExpiresAt)
	if pg.IsForeignKey(err, "access_tokens_membership_fkey") {
		return fault.New(fault.Forbidden, "You are no longer a member of the organization.")
	}
	if err != nil {
		return fmt.Errorf("insert an access token: %w", err)
	}
	return nil
}

// AuthenticateToken returns the caller of a request with this access token. An unknown,
// revoked or expired token is the same Unauthenticated error. Each call asks the
// database, so a revocation takes effect at once. It updates when the token was last
// used, at most once a minute.
func (s *Service) AuthenticateToken(ctx context.Context, token string) (Caller, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var t AccessToken
	now := s.clock.Now()
	err := s.System.GetContext(ctx, &t,
		`SELECT `+tokenColumns+` FROM access_tokens WHERE token_hash = $1 AND expires_at > $2`, secret.Hash(token), now)
	if errors.Is(err, sql.ErrNoRows) {
		return Caller{}, fault.New(fault.Unauthenticated, "The access token is invalid, revoked or expired.")
	}
	if err != nil {
		return Caller{}, fmt.Errorf("find an access token: %w", err)
	}
	if longAgo := now.Add(-lastSeenPrecision); t.LastUsedAt == nil || !t.LastUsedAt.After(longAgo) {
		_, err := s.System.ExecContext(ctx, `UPDATE access_tokens SET last_used_at = $2
			WHERE id = $1 AND (last_used_at IS NULL OR last_used_at <= $3)`, t.ID, now, longAgo)
		if err != nil {
			return Caller{}, fmt.Errorf("update when an access token was last used: %w", err)
		}
	}
	return Caller{UserID: t.UserID, ActiveOrgID: t.OrgID, Token: &t}, nil
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
	const mine = ` FROM access_tokens WHERE organization_id = $1 AND user_id = $2`
	result := page.Page[AccessToken]{Request: r, Items: []AccessToken{}}
	err := pg.InOrg(ctx, s.db, caller.OrgID, func(tx *sqlx.Tx) error {
		if err := tx.GetContext(ctx, &result.Total, `SELECT count(*)`+mine, caller.OrgID, caller.UserID); err != nil {
			return fmt.Errorf("count the access tokens of a user: %w", err)
		}
		err := tx.SelectContext(ctx, &result.Items,
			`SELECT `+tokenColumns+mine+r.OrderBy(tokenOrder)+` LIMIT $3 OFFSET $4`, caller.OrgID, caller.UserID, r.Limit, r.Offset())
		if err != nil {
			return fmt.Errorf("list the access tokens of a user: %w", err)
		}
		return nil
	})
	return result, err
}

// RevokeAccessToken deletes a token of the caller for the caller's organization. Returns
// NotFound for any other token.
func (s *Service) RevokeAccessToken(ctx context.Context, caller Caller, tokenID uuid.UUID) error {
	return pg.InOrg(ctx, s.db, caller.OrgID, func(tx *sqlx.Tx) error {
		var name string
		err := tx.GetContext(ctx, &name, `DELETE FROM access_tokens
			WHERE id = $1 AND organization_id = $2 AND user_id = $3 RETURNING name`, tokenID, caller.OrgID, caller.UserID)
		if errors.Is(err, sql.ErrNoRows) {
			return fault.Missing("access token")
		}
		if err != nil {
			return fmt.Errorf("revoke an access token: %w", err)
		}
		return s.Audit.Record(ctx, tx, caller.OrgID, "accessToken.revoked", tokenID.String(), map[string]any{"name": name})
	})
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
		var revoked []AccessToken
		err := tx.SelectContext(ctx, &revoked,
			`DELETE FROM access_tokens WHERE organization_id = $1 AND user_id = $2 RETURNING `+tokenColumns, orgID, userID)
		if err != nil {
			return fmt.Errorf("revoke the access tokens of a user: %w", err)
		}
		for _, t := range revoked {
			err := audit.Record(ctx, tx, orgID, "accessToken.revoked", t.ID.String(), map[string]any{"name": t.Name, "reason": reason})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
