package ticket

import (
	"crypto/rand"
	"time"
)

// ConsoleTTL is the lifetime of a console token.
const ConsoleTTL = 12 * time.Hour

// ConsoleCookie is the name of the cookie with the console token.
const ConsoleCookie = "svc_console"

// console is the use of console tokens. With consoleAudience it prevents that a
// console token is valid for a launch, or a token of a launch as a console token.
const console Use = "console"

// consoleAudience is not a launch id, which is a UUID.
const consoleAudience = "console"

// MintConsole returns a new console token and its expiry. It is valid for all
// operations that accept the worker key.
func (t *Tickets) MintConsole() (token string, expires time.Time, err error) {
	now := t.now()
	expires = now.Add(ConsoleTTL)
	token, err = t.sign(consoleAudience, console, Claims{ID: rand.Text(), IssuedAt: now, Expires: expires})
	return token, expires, err
}

// VerifyConsole is Verify for a console token.
func (t *Tickets) VerifyConsole(token string) (Claims, error) {
	return t.Verify(token, consoleAudience, console)
}
