package gate

import (
	"fmt"
	"net/url"
	"time"

	"github.com/browser-svc/svc/worker/internal/ticket"
)

// Minter makes the tokens that URLs carry.
type Minter interface {
	Mint(launchID string, use ticket.Use) (token string, expires time.Time, err error)
}

// Links builds the URLs of launches.
type Links struct {
	Address Address
	Tokens  Minter
}

// Carry is the query by which a token comes along in a URL: ?ct= or ?t=
// (specification 5.1).
func Carry(use ticket.Use, token string) url.Values {
	return url.Values{queryName(use): {token}}
}

func queryName(use ticket.Use) string {
	if use == ticket.View {
		return ticketQuery
	}
	return tokenQuery
}

// Set is what a launch is reached by. Each URL carries the same control token.
type Set struct {
	ControlToken string
	WebSocket    string // CDP, of the whole browser
	DevTools     string // its front end, for people; empty where the build brings none
	View         string // the live view, for people
	Page         string // everything about the browser, for people
}

// Of returns the URLs of a launch with a new control token (specification 2.4,
// 5.5).
func (l Links) Of(launchID, debugPath string, devtools bool) (Set, error) {
	token, _, err := l.Tokens.Mint(launchID, ticket.Control)
	if err != nil {
		return Set{}, fmt.Errorf("mint a control token: %w", err)
	}
	carry := Carry(ticket.Control, token)
	set := Set{
		ControlToken: token,
		WebSocket:    l.Address.BrowserSocket(launchID, debugPath, carry),
		View:         l.Address.Browser(launchID, "view", carry),
		Page:         l.Address.Browser(launchID, "", carry),
	}
	if devtools {
		set.DevTools = l.Address.Browser(launchID, "devtools", carry)
	}
	return set, nil
}
