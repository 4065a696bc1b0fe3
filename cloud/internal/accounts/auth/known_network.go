package auth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	emails "github.com/browser-svc/svc/cloud/internal/platform/email"
	"github.com/browser-svc/svc/db/pg"
)

// knownNetworkTTL is how long a network is known for an address after the last
// sign-in.
const knownNetworkTTL = 30 * 24 * time.Hour

// knownNetwork is the key of an address in a network from which it has signed in.
// Wrong passwords from there are counted separately, so that attackers elsewhere
// cannot lock the owner out.
func knownNetwork(email string, c Client) limitKey {
	return newLimitKey(limitKind{"home", 5, false}, c.network()+"\n"+emails.Normal(email))
}

// addKnownNetwork marks the client's network as known for the address, or renews
// it.
func (a attemptLimiter) addKnownNetwork(ctx context.Context, db sqlx.ExecerContext, email string, client Client) error {
	key, now := knownNetwork(email, client), a.clock.Now()
	_, err := db.ExecContext(ctx, `
		INSERT INTO auth_attempts (kind, subject, attempts, blocked_until, forget_at) VALUES ($1, $2, 0, $3, $4)
		ON CONFLICT (kind, subject) DO UPDATE
		SET attempts = 0, blocked_until = excluded.blocked_until, forget_at = excluded.forget_at`,
		key.name, key.hash[:], now, now.Add(knownNetworkTTL))
	if err != nil {
		return fmt.Errorf("save a known network: %w", err)
	}
	return nil
}

// lockKnownNetwork locks the count of a known network. For an unknown network it
// returns a zero count, whose save has no effect.
func (a attemptLimiter) lockKnownNetwork(ctx context.Context, tx *sqlx.Tx, key limitKey) (c attemptCount, isKnown bool, err error) {
	err = tx.GetContext(ctx, &c, `
		SELECT kind, subject, attempts, blocked_until, forget_at FROM auth_attempts
		WHERE kind = $1 AND subject = $2 AND forget_at > $3 FOR UPDATE`, key.name, key.hash[:], a.clock.Now())
	if errors.Is(err, sql.ErrNoRows) {
		return attemptCount{Kind: key.name, Subject: key.hash[:]}, false, nil
	}
	if err != nil {
		return attemptCount{}, false, fmt.Errorf("find a known network: %w", err)
	}
	c.limit = key.limitKind
	return c, true, nil
}

// checkPassword decides a sign-in attempt for an address; match reports whether the
// password is correct. All networks share the free attempts of the address. A
// known network has additional attempts that only accept the correct password. A
// wrong password gets the same answer after the same work as elsewhere, so that
// it does not reveal whether the account exists or where it signs in. An attempt
// that is refused while the address is paused counts as a failure of the client;
// otherwise it could continue forever.
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
		network, isKnown, err := a.lockKnownNetwork(ctx, tx, knownNetwork(email, client))
		if err != nil {
			return err
		}
		fromKnown := isKnown && a.checkPause(network) == nil
		refusal = a.checkPause(ofAddress)
		if match && (fromKnown || refusal == nil) {
			refusal = nil
			if fromKnown && ofAddress.Attempts > network.Attempts {
				return nil // some failures came from other networks: keep the count
			}
			return deleteCount(ctx, tx, failuresByEmail(email))
		}
		failed := []attemptCount{fromClient}
		if refusal == nil {
			refusal, failed = errWrongPassword(), append(failed, ofAddress)
		}
		if fromKnown {
			network.increment(a.clock.Now())
		}
		return errors.Join(a.increment(ctx, tx, failed...), network.save(ctx, tx))
	})
	if err != nil {
		return err
	}
	return refusal
}
