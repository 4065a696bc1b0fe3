package ticket

import (
	"errors"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/browser-svc/svc/shared/clock"
)

func mintConsole(t *testing.T, tickets *Tickets) string {
	t.Helper()
	token, _, err := tickets.MintConsole()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestVerifyConsole_AcceptsTokenUntilItExpires(t *testing.T) {
	now := clock.NewFake(boot)
	tickets := New(now)
	token, expires, err := tickets.MintConsole()
	if err != nil || !expires.Equal(boot.Add(12*time.Hour)) {
		t.Fatalf("expires at %s: %v", expires, err)
	}
	now.Advance(12*time.Hour - time.Microsecond)
	if claims, err := tickets.VerifyConsole(token); err != nil || !claims.Expires.Equal(expires) {
		t.Errorf("just before its expiry: %+v %v", claims, err)
	}
	now.Advance(time.Microsecond)
	if _, err := tickets.VerifyConsole(token); !errors.Is(err, jwt.ErrTokenExpired) {
		t.Errorf("at its expiry: %v", err)
	}
}

func TestVerifyConsole_RefusesOtherTokens(t *testing.T) {
	tickets := New(clock.NewFake(boot))
	for name, token := range map[string]string{
		"nothing":                      "",
		"garbage":                      "not a token",
		"a changed signature":          mintConsole(t, tickets) + "A",
		"the previous boot":            mintConsole(t, New(clock.NewFake(boot))),
		"a control token":              mint(t, tickets, launch, Control),
		"a view ticket":                mint(t, tickets, launch, View),
		"a control token for console":  mint(t, tickets, consoleAudience, Control),
		"a view ticket for console":    mint(t, tickets, consoleAudience, View),
		"a console token for a launch": signConsole(t, tickets, launch),
	} {
		if _, err := tickets.VerifyConsole(token); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func signConsole(t *testing.T, tickets *Tickets, audience string) string {
	t.Helper()
	token, err := tickets.sign(audience, console, Claims{ID: "1", IssuedAt: boot, Expires: boot.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestVerify_RefusesConsoleToken(t *testing.T) {
	tickets := New(clock.NewFake(boot))
	for _, token := range []string{mintConsole(t, tickets), signConsole(t, tickets, launch)} {
		for _, launchID := range []string{launch, consoleAudience} {
			for _, use := range []Use{Control, View} {
				if _, err := tickets.Verify(token, launchID, use); !errors.Is(err, ErrInvalid) {
					t.Errorf("%s of %s: %v", use, launchID, err)
				}
			}
		}
	}
	if token, _, err := tickets.Mint(launch, console); err == nil {
		t.Errorf("minted the console token %q for a launch", token)
	}
}
