// Package ticket mints and verifies the tokens of a launch: control tokens and view
// tickets (specification 5.5).
//
// Both are signed with a secret of the worker's process, so a restart invalidates
// all of them, and both name their launch. For a running launch, its control token
// and the spent tokens are kept: a URL opens a page once (specification 5.1).
package ticket

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/browser-svc/svc/shared/clock"
)

// Use is the purpose of a token. A token is valid for one use only.
type Use string

// The uses.
const (
	Control Use = "control" // full access to the launch
	View    Use = "view"    // live view only
)

// Lifetimes of tokens (specification 5.5.3).
const (
	ControlTTL = 12 * time.Hour
	ViewTTL    = 15 * time.Minute
)

// maxTokenLength is longer than any valid token, in bytes. Longer tokens are refused
// without parsing.
const maxTokenLength = 2048

// ErrInvalid is returned by Verify for every token that does not open the launch,
// with the reason for the log, and by MintFor for a token that would already be
// expired.
var ErrInvalid = errors.New("ticket: invalid")

// Tickets mints and verifies the tokens of one run of the worker. It is safe for
// concurrent use.
type Tickets struct {
	secret []byte
	clock  clock.Clock

	mu       sync.Mutex
	launches map[string]*launchTokens // of running launches, by launch id

	recordings launchTokens // the spent tickets of recordings
}

// New returns Tickets with a new secret. Tokens of other Tickets are invalid.
func New(clock clock.Clock) *Tickets {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never returns an error
	return &Tickets{secret: secret, clock: clock, launches: map[string]*launchTokens{}, recordings: launchTokens{spent: map[spentToken]Claims{}}}
}

// Claims are the claims of a token.
type Claims struct {
	ID       string // unique
	IssuedAt time.Time
	Expires  time.Time
}

type claims struct {
	jwt.RegisteredClaims
	Use Use `json:"use"`
}

// Mint returns a new token for a launch and its expiry.
func (t *Tickets) Mint(launchID string, use Use) (token string, expires time.Time, err error) {
	return t.MintFor(launchID, use, math.MaxInt64, time.Time{})
}

// MintFor is Mint with a shorter lifetime: at least a second, at most the maximum of
// the use and, unless until is zero, no later than until.
func (t *Tickets) MintFor(launchID string, use Use, lifetime time.Duration, until time.Time) (token string, expires time.Time, err error) {
	longest, err := ttl(use)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("mint ticket: %w", err)
	}
	now := t.now()
	expires = now.Add(min(lifetime, longest).Truncate(time.Second))
	if !until.IsZero() && until.Before(expires) {
		expires = until.Truncate(time.Second)
	}
	if !expires.After(now) {
		return "", time.Time{}, fmt.Errorf("%w: it would already be expired", ErrInvalid)
	}
	token, err = t.sign(launchID, use, Claims{ID: rand.Text(), IssuedAt: now, Expires: expires}) // two tokens of the same second differ
	return token, expires, err
}

// now returns the time with the precision of a token.
func (t *Tickets) now() time.Time { return t.clock.Now().Truncate(time.Second) }

func (t *Tickets) sign(launchID string, use Use, c Claims) (string, error) {
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims{
		RegisteredClaims: jwt.RegisteredClaims{
			ID:        c.ID,
			Audience:  jwt.ClaimStrings{launchID},
			IssuedAt:  jwt.NewNumericDate(c.IssuedAt),
			ExpiresAt: jwt.NewNumericDate(c.Expires),
		},
		Use: use,
	}).SignedString(t.secret)
	if err != nil {
		return "", fmt.Errorf("mint ticket: %w", err)
	}
	return token, nil
}

// Verify returns the claims of a token that this Tickets minted for the launch and
// use and that has not expired. Otherwise it returns an error that wraps ErrInvalid.
// Spent tokens are valid.
func (t *Tickets) Verify(token, launchID string, use Use) (Claims, error) {
	owner, c, err := t.verify(token, use)
	if err == nil && owner != launchID {
		return Claims{}, fmt.Errorf("%w: of another launch", ErrInvalid)
	}
	return c, err
}

// LaunchOf returns the launch of a control token, under the conditions of Verify. The
// launch may have ended.
func (t *Tickets) LaunchOf(token string) (launchID string, err error) {
	launchID, _, err = t.verify(token, Control)
	return launchID, err
}

func (t *Tickets) verify(token string, use Use) (launchID string, _ Claims, _ error) {
	if len(token) > maxTokenLength {
		return "", Claims{}, fmt.Errorf("%w: too long", ErrInvalid)
	}
	if strings.ContainsAny(token, "\r\n") { // the base64 decoder ignores them
		return "", Claims{}, fmt.Errorf("%w: contains line breaks", ErrInvalid)
	}
	var c claims
	_, err := jwt.ParseWithClaims(token, &c,
		func(*jwt.Token) (any, error) { return t.secret, nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
		jwt.WithExpirationRequired(),
		jwt.WithStrictDecoding(),
		jwt.WithTimeFunc(t.clock.Now),
	)
	switch {
	case err != nil:
		return "", Claims{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	case len(c.Audience) != 1:
		return "", Claims{}, fmt.Errorf("%w: not of one launch", ErrInvalid)
	case c.Use != use:
		return "", Claims{}, fmt.Errorf("%w: not for this use", ErrInvalid)
	case c.ID == "" || c.IssuedAt == nil:
		return "", Claims{}, fmt.Errorf("%w: without an id or issue time", ErrInvalid)
	}
	return c.Audience[0], Claims{ID: c.ID, IssuedAt: c.IssuedAt.Time, Expires: c.ExpiresAt.Time}, nil
}

func ttl(use Use) (time.Duration, error) {
	switch use {
	case Control:
		return ControlTTL, nil
	case View:
		return ViewTTL, nil
	}
	return 0, fmt.Errorf("unknown use %q", use)
}

// CookieName returns the name of the cookie for a launch's token: svc_ctl_ or
// svc_view_, followed by the alphanumeric characters of the launch id (specification
// 5.5.2).
func CookieName(launchID string, use Use) string {
	prefix := "svc_ctl_"
	if use == View {
		prefix = "svc_view_"
	}
	return prefix + strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return -1
	}, launchID)
}
