package auth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	emails "github.com/browser-svc/svc/cloud/internal/email"
	"github.com/browser-svc/svc/db/pg"
)

// knownNetworkTTL is how long a network stays a home of an address after the last
// sign-in from there.
const knownNetworkTTL = 30 * 24 * time.Hour

// knownNetwork is an address in a network. It is there, with no failure at first, once
// the address has signed in from the network: then that is a home of it, where
// wrong passwords are counted apart. Else whoever guesses anywhere could keep
// the owner out.
func knownNetwork(email string, c Client) limitKey {
	return newLimitKey(limitKind{"home", 5, false}, c.network()+"\n"+emails.Normal(email))
}

// addKnownNetwork makes the client's network a home of the address, or a new one again.
func (a attemptLimiter) addKnownNetwork(ctx context.Context, db sqlx.ExecerContext, email string, client Client) error {
	home, now := knownNetwork(email, client), a.clock.Now()
	_, err := db.ExecContext(ctx, `
		INSERT INTO auth_attempts (kind, subject, attempts, blocked_until, forget_at) VALUES ($1, $2, 0, $3, $4)
		ON CONFLICT (kind, subject) DO UPDATE
		SET attempts = 0, blocked_until = excluded.blocked_until, forget_at = excluded.forget_at`,
		home.name, home.hash[:], now, now.Add(knownNetworkTTL))
	if err != nil {
		return fmt.Errorf("save a known network: %w", err)
	}
	return nil
}

// lockKnownNetwork locks the count of a home. One that is none has not been counted: what
// is written of it changes nothing.
func (a attemptLimiter) lockKnownNetwork(ctx context.Context, tx *sqlx.Tx, home limitKey) (c attemptCount, isHome bool, err error) {
	err = tx.GetContext(ctx, &c, `
		SELECT kind, subject, attempts, blocked_until, forget_at FROM auth_attempts
		WHERE kind = $1 AND subject = $2 AND forget_at > $3 FOR UPDATE`, home.name, home.hash[:], a.clock.Now())
	if errors.Is(err, sql.ErrNoRows) {
		return attemptCount{Kind: home.name, Subject: home.hash[:]}, false, nil
	}
	if err != nil {
		return attemptCount{}, false, fmt.Errorf("find a known network: %w", err)
	}
	c.limit = home.limitKind
	return c, true, nil
}

// checkPassword answers a password that was tried for an address; match tells whether it
// is the right one. All strangers share the tries of the address. Whoever is at
// home has some besides, which open only to the right password: a wrong one is
// answered as everywhere, after the same work, so that it tells nobody who has
// an account, and where they sign in. What is refused during the pause of the
// address counts as a failure of the client: else it could go on for ever.
func (a attemptLimiter) checkPassword(ctx context.Context, client Client, email string, match bool) error {
	var refusal error
	err := pg.InTx(ctx, a.db, func(tx *sqlx.Tx) error {
		counts, err := a.lockCounts(ctx, tx, []limitKey{failuresByClient(client), failuresByEmail(email)})
		if err != nil {
			return err
		}
		fromClient, ofAddress := counts[0], counts[1]
		if err := a.checkPause(fromClient); err != nil {
			return err
		}
		home, isHome, err := a.lockKnownNetwork(ctx, tx, knownNetwork(email, client))
		if err != nil {
			return err
		}
		atHome := isHome && a.checkPause(home) == nil
		refusal = a.checkPause(ofAddress)
		if match && (atHome || refusal == nil) {
			refusal = nil
			if atHome && ofAddress.Attempts > home.Attempts {
				return nil // there are strangers' among them: they stay counted
			}
			return deleteCount(ctx, tx, failuresByEmail(email))
		}
		failed := []attemptCount{fromClient}
		if refusal == nil {
			refusal, failed = errWrongPassword(), append(failed, ofAddress)
		}
		if atHome {
			home.increment(a.clock.Now())
		}
		return errors.Join(a.increment(ctx, tx, failed...), home.save(ctx, tx))
	})
	if err != nil {
		return err
	}
	return refusal
}
