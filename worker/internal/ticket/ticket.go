// Package ticket mints and verifies the tokens that open one launch: control
// tokens and view tickets (specification 5.5).
//
// Both are signed with a secret that lives as long as the worker's process, so
// a restart invalidates all of them, and both name the launch that they open.
// Of a launch that runs, its own control token is kept, and which tokens have
// opened a page: an address opens a page once (specification 5.1).
package ticket

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/browser-svc/svc/shared/clock"
)

// Use says what a token is good for. One can't pass for the other.
type Use string

// The uses.
const (
	Control Use = "control" // drives the browser, and opens everything else of its launch
	View    Use = "view"    // streams the desktop, and nothing more
)

// How long tokens last (specification 5.5.3).
const (
	ControlTTL = 12 * time.Hour
	ViewTTL    = 15 * time.Minute
)

// maxTokenLength is longer than any token minted here, in bytes: more is refused
// unread.
const maxTokenLength = 2048

// ErrInvalid is what Verify returns for every token that doesn't open the
// launch, with the reason for the log, and MintFor for a token that would have
// expired already.
var ErrInvalid = errors.New("ticket: invalid")

// Tickets mints and verifies the tokens of one run of the worker. It is safe for
// concurrent use.
type Tickets struct {
	secret []byte
	clock  clock.Clock

	mu       sync.Mutex
	launches map[string]*launchTokens // that run, by launch id
}

// New draws a fresh secret: the tokens of another Tickets are invalid here.
func New(clock clock.Clock) *Tickets {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails: it ends the program instead
	return &Tickets{secret: secret, clock: clock, launches: map[string]*launchTokens{}}
}

// Claims are what a token says of itself.
type Claims struct {
	ID       string // no two tokens have the same
	IssuedAt time.Time
	Expires  time.Time
}

type claims struct {
	jwt.RegisteredClaims
	Use Use `json:"use"`
}

// Mint returns a new token that opens launchID for that use, and when it
// expires.
func (t *Tickets) Mint(launchID string, use Use) (token string, expires time.Time, err error) {
	return t.MintFor(launchID, use, math.MaxInt64, time.Time{})
}

// MintFor is Mint for a shorter time: lifetime, a second at least and at most
// what the use allows, and no longer than until, unless that is zero.
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
		return "", time.Time{}, fmt.Errorf("%w: it would have expired already", ErrInvalid)
	}
	token, err = t.sign(launchID, use, Claims{ID: rand.Text(), IssuedAt: now, Expires: expires}) // two tokens of the same second differ
	return token, expires, err
}

// now is as exact as a token can express.
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

// Verify returns what a token says when this Tickets minted it for exactly that
// launch and use and it hasn't expired, and otherwise an error that wraps
// ErrInvalid. Whether the token has opened a page makes no difference.
func (t *Tickets) Verify(token, launchID string, use Use) (Claims, error) {
	if len(token) > maxTokenLength {
		return Claims{}, fmt.Errorf("%w: too long", ErrInvalid)
	}
	if strings.ContainsAny(token, "\r\n") { // which the decoder of base64 skips
		return Claims{}, fmt.Errorf("%w: not as it was minted", ErrInvalid)
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
		return Claims{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	case !slices.Equal(c.Audience, jwt.ClaimStrings{launchID}):
		return Claims{}, fmt.Errorf("%w: of another launch", ErrInvalid)
	case c.Use != use:
		return Claims{}, fmt.Errorf("%w: not for this use", ErrInvalid)
	case c.ID == "" || c.IssuedAt == nil:
		return Claims{}, fmt.Errorf("%w: without an id or the time of its issue", ErrInvalid)
	}
	return Claims{ID: c.ID, IssuedAt: c.IssuedAt.Time, Expires: c.ExpiresAt.Time}, nil
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

// CookieName is the name of the cookie that carries a launch's token: svc_ctl_
// or svc_view_, and the launch id without every character that isn't
// alphanumeric (specification 5.5.2).
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
