package ticket

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/browser-svc/svc/shared/clock"
)

const (
	launch = "019a5f3e-a1b3-7001-9c4f-6a6b7c8d9e06"
	other  = "019a5f3e-a1b3-7001-9c4f-6a6b7c8d9e07"
)

var boot = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

func mint(t *testing.T, tickets *Tickets, launchID string, use Use) string {
	t.Helper()
	token, _, err := tickets.Mint(launchID, use)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestVerify_AcceptsTokenUntilItExpires(t *testing.T) {
	for use, lifetime := range map[Use]time.Duration{Control: 12 * time.Hour, View: 15 * time.Minute} {
		now := clock.NewFake(boot.Add(123456 * time.Microsecond))
		tickets := New(now)
		token, expires, err := tickets.Mint(launch, use)
		if err != nil {
			t.Fatal(err)
		}
		if want := boot.Add(lifetime); !expires.Equal(want) {
			t.Errorf("%s expires at %s, want %s", use, expires, want)
		}
		now.Advance(expires.Sub(now.Now()) - time.Microsecond)
		if _, err := tickets.Verify(token, launch, use); err != nil {
			t.Errorf("%s, just before its expiry: %v", use, err)
		}
		now.Advance(time.Microsecond)
		if _, err := tickets.Verify(token, launch, use); !errors.Is(err, ErrInvalid) || !errors.Is(err, jwt.ErrTokenExpired) {
			t.Errorf("%s, at its expiry: %v", use, err)
		}
	}
}

func TestMintFor_CapsLifetime(t *testing.T) {
	tickets := New(clock.NewFake(boot))
	for lifetime, want := range map[time.Duration]time.Duration{
		30 * time.Second: 30 * time.Second, 90*time.Second + 999*time.Millisecond: 90 * time.Second, ViewTTL: ViewTTL, time.Hour: ViewTTL,
	} {
		token, expires, err := tickets.MintFor(launch, View, lifetime, time.Time{})
		if err != nil || !expires.Equal(boot.Add(want)) {
			t.Errorf("%s: expires at %s, want %s later than %s: %v", lifetime, expires, want, boot, err)
		}
		if _, err := tickets.Verify(token, launch, View); err != nil {
			t.Error(err)
		}
	}
	for _, lifetime := range []time.Duration{0, -time.Second, time.Second / 2} {
		if token, _, err := tickets.MintFor(launch, View, lifetime, time.Time{}); err == nil {
			t.Errorf("%s: minted %q", lifetime, token)
		}
	}
}

func TestMint_TokensAreUnique(t *testing.T) {
	tickets := New(clock.NewFake(boot))
	if a, b := mint(t, tickets, launch, Control), mint(t, tickets, launch, Control); a == b {
		t.Error("got the same token twice")
	}
}

func TestMint_RefusesUnknownUse(t *testing.T) {
	if token, _, err := New(clock.System{}).Mint(launch, "admin"); err == nil {
		t.Errorf("minted %q", token)
	}
}

func TestVerify_RefusesInvalidTokens(t *testing.T) {
	now := clock.NewFake(boot)
	tickets := New(now)
	good := mint(t, tickets, launch, Control)
	signed := func(method jwt.SigningMethod, key any, change func(*claims)) string {
		c := claims{Use: Control, RegisteredClaims: jwt.RegisteredClaims{
			ID: "1", Audience: jwt.ClaimStrings{launch}, IssuedAt: jwt.NewNumericDate(boot), ExpiresAt: jwt.NewNumericDate(boot.Add(time.Hour)),
		}}
		change(&c)
		token, err := jwt.NewWithClaims(method, c).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	same := func(*claims) {}
	if _, err := tickets.Verify(signed(jwt.SigningMethodHS256, tickets.secret, same), launch, Control); err != nil {
		t.Fatalf("the unmodified token is invalid: %v", err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(good, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	changed := "A" + signature[1:]
	if changed == signature {
		changed = "B" + signature[1:]
	}

	for name, token := range map[string]string{
		"nothing":             "",
		"garbage":             "not a token",
		"three empty parts":   "..",
		"too long":            good + strings.Repeat("A", maxTokenLength),
		"a changed signature": head + "." + payload + "." + changed,
		"no signature":        head + "." + payload + ".",
		"a padded signature":  good + "=",
		"another header":      base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + payload + ".",
		"another launch":      mint(t, tickets, other, Control),
		"a view ticket":       mint(t, tickets, launch, View),
		"the previous boot":   mint(t, New(now), launch, Control),
		"alg none":            signed(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, same),
		"HS512":               signed(jwt.SigningMethodHS512, tickets.secret, same),
		"RS256":               signed(jwt.SigningMethodRS256, rsaKey, same),
		"expired":             signed(jwt.SigningMethodHS256, tickets.secret, func(c *claims) { c.ExpiresAt = jwt.NewNumericDate(boot) }),
		"no expiry":           signed(jwt.SigningMethodHS256, tickets.secret, func(c *claims) { c.ExpiresAt = nil }),
		"no audience":         signed(jwt.SigningMethodHS256, tickets.secret, func(c *claims) { c.Audience = nil }),
		"two audiences":       signed(jwt.SigningMethodHS256, tickets.secret, func(c *claims) { c.Audience = jwt.ClaimStrings{launch, other} }),
		"no id":               signed(jwt.SigningMethodHS256, tickets.secret, func(c *claims) { c.ID = "" }),
		"no issue time":       signed(jwt.SigningMethodHS256, tickets.secret, func(c *claims) { c.IssuedAt = nil }),
		"no use":              signed(jwt.SigningMethodHS256, tickets.secret, func(c *claims) { c.Use = "" }),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := tickets.Verify(token, launch, Control); !errors.Is(err, ErrInvalid) {
				t.Errorf("Verify = %v", err)
			}
			if owner, err := tickets.LaunchOf(token); name != "another launch" && !errors.Is(err, ErrInvalid) || name == "another launch" && owner != other {
				t.Errorf("LaunchOf = %q, %v", owner, err)
			}
		})
	}
	if owner, err := tickets.LaunchOf(good); owner != launch || err != nil {
		t.Errorf("LaunchOf = %q, %v", owner, err)
	}
	if _, err := tickets.Verify(good, launch, View); !errors.Is(err, ErrInvalid) {
		t.Errorf("a control token was accepted as a view ticket: %v", err)
	}
}

func TestCookieName(t *testing.T) {
	for want, got := range map[string]string{
		"svc_ctl_019a5f3ea1b370019c4f6a6b7c8d9e06":  CookieName(launch, Control),
		"svc_view_019a5f3ea1b370019c4f6a6b7c8d9e06": CookieName(launch, View),
		"svc_ctl_aZ9": CookieName("a_Z;=9\r\né", Control),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
