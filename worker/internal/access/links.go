package access

import (
	"fmt"
	"net/url"
	"time"

	"github.com/browser-svc/svc/worker/internal/ticket"
)

// Tokens are those that URLs carry.
type Tokens interface {
	LaunchToken(launchID string) (token string, expires time.Time, err error) // the launch's own control token
	PageToken(launchID string, until time.Time) (string, error)               // a control token that has opened no page; until zero: as long as the launch's own
	IsSpent(launchID string, c ticket.Claims) bool                            // whether a token has opened a page
}

// Links builds the URLs of launches.
type Links struct {
	Address Address
	Tokens  Tokens
}

// TokenQuery is the query by which a token comes along in a URL: ?ct= or ?t=
// (specification 5.1).
func TokenQuery(use ticket.Use, token string) url.Values {
	return url.Values{queryName(use): {token}}
}

func queryName(use ticket.Use) string {
	if use == ticket.View {
		return ticketQuery
	}
	return tokenQuery
}

// URLs is what a launch is reached by. All carry the launch's control token, but
// those of pages another one once it has opened a page.
type URLs struct {
	ControlToken string
	Expires      time.Time // of ControlToken
	WebSocket    string    // CDP, of the whole browser
	DevTools     string    // its front end, for people; empty where the build brings none
	View         string    // the live view, for people
	Page         string    // everything about the browser, for people
}

// ForLaunch returns the URLs of a launch (specification 2.4, 5.5).
func (l Links) ForLaunch(launchID, debugPath string, devtools bool) (URLs, error) {
	token, expires, err := l.Tokens.LaunchToken(launchID)
	if err != nil {
		return URLs{}, fmt.Errorf("get the control token: %w", err)
	}
	forPage, err := l.Tokens.PageToken(launchID, time.Time{})
	if err != nil {
		return URLs{}, fmt.Errorf("get a control token for pages: %w", err)
	}
	carry := TokenQuery(ticket.Control, forPage)
	set := URLs{
		ControlToken: token,
		Expires:      expires,
		WebSocket:    l.Address.BrowserSocket(launchID, debugPath, TokenQuery(ticket.Control, token)),
		View:         l.Address.Browser(launchID, "view", carry),
		Page:         l.Address.Browser(launchID, "", carry),
	}
	if devtools {
		set.DevTools = l.Address.Browser(launchID, "devtools", carry)
	}
	return set, nil
}

// TokenFor is the control token for addresses in the answer to a visitor: their
// own, or that of the launch for who came with the worker key.
func (l Links) TokenFor(v AuthorizedRequest) (string, error) {
	if v.Token != "" {
		return v.Token, nil
	}
	token, _, err := l.Tokens.LaunchToken(v.LaunchID)
	if err != nil {
		return "", fmt.Errorf("get the control token: %w", err)
	}
	return token, nil
}

// PageTokenFor is TokenFor for addresses of pages: one that has opened none, and
// that lasts no longer than the visitor's own.
func (l Links) PageTokenFor(v AuthorizedRequest) (string, error) {
	if v.Token != "" && !l.Tokens.IsSpent(v.LaunchID, v.Claims) {
		return v.Token, nil
	}
	token, err := l.Tokens.PageToken(v.LaunchID, v.Claims.Expires)
	if err != nil {
		return "", fmt.Errorf("get a control token for a page: %w", err)
	}
	return token, nil
}
