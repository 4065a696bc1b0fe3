package auth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	emails "github.com/browser-svc/svc/cloud/internal/platform/email"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

// Recorder writes the audit log. It takes the actor from the context. An event
// without an organization has the zero ID.
type Recorder interface {
	Record(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, action, targetID string, details map[string]any) error
}

// Operator manages accounts on behalf of an operator. Each change is recorded for
// the service and for every organization of the user.
type Operator struct {
	Accounts *Service
	DB       *sqlx.DB // sees all organizations, for the audit log
	Audit    Recorder
}

// Account is a user as shown to the operator.
type Account struct {
	User
	DisabledAt *time.Time `db:"disabled_at"`  // nil if not disabled
	Sessions   int        `db:"sessions"`     // active dashboard sessions
	LastSeenAt *time.Time `db:"last_seen_at"` // in an active session; nil if there is none
}

const accountsSQL = `
	SELECT id, email, name, email_verified_at, created_at, disabled_at,
	       (SELECT count(*) FROM auth_sessions WHERE user_id = users.id AND expiry > $1) AS sessions,
	       (SELECT max(last_seen_at) FROM auth_sessions WHERE user_id = users.id AND expiry > $1) AS last_seen_at
	FROM users `

// likeEscaper escapes a text for use in LIKE.
var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// List returns a page of the users whose address or name contains the text,
// ignoring case, oldest first.
func (o Operator) List(ctx context.Context, search string, r page.Request) (page.Page[Account], error) {
	result := page.Page[Account]{Request: r, Items: []Account{}}
	pattern := "%" + likeEscaper.Replace(search) + "%"
	err := o.DB.GetContext(ctx, &result.Total, `SELECT count(*) FROM users WHERE email ILIKE $1 OR name ILIKE $1`, pattern)
	if err != nil {
		return result, fmt.Errorf("count the users: %w", err)
	}
	err = o.DB.SelectContext(ctx, &result.Items, accountsSQL+`WHERE email ILIKE $2 OR name ILIKE $2 ORDER BY created_at, id LIMIT $3 OFFSET $4`,
		o.Accounts.clock.Now(), pattern, r.Limit, r.Offset())
	if err != nil {
		return result, fmt.Errorf("list the users: %w", err)
	}
	return result, nil
}

// Find returns the user with this ID or e-mail address, or NotFound.
func (o Operator) Find(ctx context.Context, ref string) (Account, error) {
	var a Account
	err := o.DB.GetContext(ctx, &a, accountsSQL+`WHERE id::text = $2 OR email = $3`, o.Accounts.clock.Now(), strings.ToLower(ref), emails.Normal(ref))
	if errors.Is(err, sql.ErrNoRows) {
		return Account{}, fault.Missing("user")
	}
	if err != nil {
		return Account{}, fmt.Errorf("find a user: %w", err)
	}
	return a, nil
}

// CreateFirst creates the first user, whose address counts as verified, because the
// operator has named it. The user has no password, for which there is ResetLink. Returns
// Validation for an invalid address, and Conflict if a user exists.
func (o Operator) CreateFirst(ctx context.Context, email string) (Account, error) {
	email = emails.Normal(email)
	if !isPlausibleEmail(email) {
		return Account{}, fault.Field("email", "is not an e-mail address")
	}
	u, err := o.Accounts.newIdentifiedUser(email, "")
	if err != nil {
		return Account{}, err
	}
	err = pg.InTx(ctx, o.DB, func(tx *sqlx.Tx) error {
		if err := o.Accounts.lockFirstUser(ctx, tx); err != nil {
			return err
		}
		var others bool
		if err := tx.GetContext(ctx, &others, `SELECT EXISTS (SELECT FROM users)`); err != nil {
			return fmt.Errorf("find a user: %w", err)
		}
		if others {
			return fault.New(fault.Conflict, "There is already a user.")
		}
		if _, err := insertUser(ctx, tx, u, sql.NullString{}); err != nil {
			return err
		}
		return o.Audit.Record(ctx, tx, uuid.Nil, "user.created", u.ID.String(), nil)
	})
	return Account{User: u}, err
}

// Disable ends all sessions of a user, revokes the access tokens and refuses new
// sessions until Enable. Password reset links become invalid. Keys that the user created belong to organizations
// and stay valid. Returns Conflict if the user is already disabled.
func (o Operator) Disable(ctx context.Context, userID uuid.UUID) error {
	return o.change(ctx, userID, "user.disabled", nil, func(tx *sqlx.Tx) error {
		// The user's row is locked first, as in replaceCredentials: a session
		// that is being created waits for it and is then refused.
		err := setDisabled(ctx, tx, `UPDATE users SET disabled_at = $2, credential_version = credential_version + 1
			WHERE id = $1 AND disabled_at IS NULL`, "The user is disabled already.", userID, o.Accounts.clock.Now())
		if err != nil {
			return err
		}
		for _, statement := range []string{
			`DELETE FROM auth_sessions WHERE user_id = $1`,
			`DELETE FROM auth_tokens WHERE user_id = $1`,
		} {
			if _, err := tx.ExecContext(ctx, statement, userID); err != nil {
				return fmt.Errorf("delete a user's sessions and tokens: %w", err)
			}
		}
		return o.Accounts.revokeAccessTokens(ctx, tx, o.Audit, userID, "userDisabled")
	})
}

// Enable reverts Disable and keeps the password. Returns Conflict if the user is
// not disabled.
func (o Operator) Enable(ctx context.Context, userID uuid.UUID) error {
	return o.change(ctx, userID, "user.enabled", nil, func(tx *sqlx.Tx) error {
		return setDisabled(ctx, tx, `UPDATE users SET disabled_at = NULL WHERE id = $1 AND disabled_at IS NOT NULL`, "The user is not disabled.", userID)
	})
}

// Verify marks the address of a user as verified. Returns Conflict if it is already.
func (o Operator) Verify(ctx context.Context, a Account) error {
	if a.EmailVerifiedAt != nil {
		return fault.New(fault.Conflict, "The address is verified already.")
	}
	return o.change(ctx, a.ID, "user.emailVerified", nil, func(tx *sqlx.Tx) error {
		return o.Accounts.markVerified(ctx, tx, a.ID)
	})
}

// setDisabled updates a user. Returns Conflict if the statement matches no row.
func setDisabled(ctx context.Context, tx *sqlx.Tx, statement, refusal string, args ...any) error {
	result, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return fmt.Errorf("change a user: %w", err)
	}
	if changed, err := result.RowsAffected(); err != nil || changed == 1 {
		return err
	}
	return fault.New(fault.Conflict, refusal)
}

// ResetLink returns a link that sets a new password once, and its expiry. The
// link does not verify the user's address. Returns Conflict for a disabled user.
func (o Operator) ResetLink(ctx context.Context, userID uuid.UUID) (link string, until time.Time, err error) {
	until = o.Accounts.clock.Now().Add(reset.life)
	err = o.reset(ctx, userID, "link", func(tx *sqlx.Tx, _ string) (err error) {
		link, err = o.Accounts.newLink(ctx, tx, userID, reset, false)
		return err
	})
	return link, until, err
}

// MailReset mails a password reset link, regardless of mail limits. Returns
// Conflict for a disabled user.
func (o Operator) MailReset(ctx context.Context, userID uuid.UUID) error {
	return o.reset(ctx, userID, "mail", func(tx *sqlx.Tx, email string) error {
		return o.Accounts.mailToken(ctx, tx, userID, email, reset)
	})
}

func (o Operator) reset(ctx context.Context, userID uuid.UUID, channel string, send func(tx *sqlx.Tx, email string) error) error {
	return o.change(ctx, userID, "user.passwordResetIssued", map[string]any{"by": channel}, func(tx *sqlx.Tx) error {
		var email string
		err := tx.GetContext(ctx, &email, `SELECT email FROM users WHERE id = $1 AND disabled_at IS NULL FOR NO KEY UPDATE`, userID)
		if errors.Is(err, sql.ErrNoRows) {
			return fault.New(fault.Conflict, "The user is disabled. Enable the user first.")
		}
		if err != nil {
			return fmt.Errorf("lock a user: %w", err)
		}
		return send(tx, email)
	})
}

// change makes a change and records it.
func (o Operator) change(ctx context.Context, userID uuid.UUID, action string, details map[string]any, do func(tx *sqlx.Tx) error) error {
	organizations, err := o.Accounts.memberships.Organizations(ctx, userID)
	if err != nil {
		return err
	}
	return pg.InTx(ctx, o.DB, func(tx *sqlx.Tx) error {
		if err := do(tx); err != nil {
			return err
		}
		for _, orgID := range append(organizations, uuid.Nil) {
			if err := o.Audit.Record(ctx, tx, orgID, action, userID.String(), details); err != nil {
				return err
			}
		}
		return nil
	})
}
