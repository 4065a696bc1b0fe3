package access

import (
	"context"
	"net/http"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

// ConsoleTokens mints and verifies console tokens.
type ConsoleTokens interface {
	MintConsole() (token string, expires time.Time, err error)
	VerifyConsole(token string) (ticket.Claims, error)
}

// Console issues and checks the console cookie, which grants the same access as the
// worker key (specification 5.6).
type Console struct {
	Address Address
	Tokens  ConsoleTokens
}

// NewCookie returns a Set-Cookie header with a new console token, and its expiry.
func (c Console) NewCookie() (header string, expires time.Time, err error) {
	token, expires, err := c.Tokens.MintConsole()
	if err != nil {
		return "", time.Time{}, err
	}
	return c.cookie(token, int(ticket.ConsoleTTL.Seconds())), expires, nil
}

// NoCookie returns a Set-Cookie header that deletes the cookie.
func (c Console) NoCookie() string { return c.cookie("", -1) }

func (c Console) cookie(token string, maxAge int) string {
	cookie := http.Cookie{ //nolint:gosec // Secure if clients use https
		Name: ticket.ConsoleCookie, Value: token, Path: c.Address.Path("/"), MaxAge: maxAge,
		HttpOnly: true, Secure: c.Address.Secure(), SameSite: http.SameSiteStrictMode,
	}
	return cookie.String()
}

// Authenticate checks the console cookie of a REST request.
func (c Console) Authenticate(r *http.Request) (context.Context, error) {
	if len(r.CookiesNamed(ticket.ConsoleCookie)) == 0 {
		return nil, oapi.ErrNoCredential
	}
	if _, ok := verifyConsole(c.Tokens, r); !ok {
		return nil, fault.New(fault.Unauthenticated, "The console cookie is invalid or has expired. Sign in again.")
	}
	if !c.Address.trustsCookies(r, Route{}) {
		return nil, fault.New(fault.Unauthenticated,
			"The console cookie is only accepted from pages of "+c.Address.String()+" (PUBLIC_URL). Open the console at that URL, or send the worker key.")
	}
	return r.Context(), nil
}

// verifyConsole returns the claims of the first valid console cookie. A request has
// several if the public path of one worker starts with that of another.
func verifyConsole(tokens ConsoleTokens, r *http.Request) (ticket.Claims, bool) {
	for _, cookie := range r.CookiesNamed(ticket.ConsoleCookie) {
		if claims, err := tokens.VerifyConsole(cookie.Value); err == nil {
			return claims, true
		}
	}
	return ticket.Claims{}, false
}
