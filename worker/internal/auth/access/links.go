package access

import (
	"fmt"
	"net/url"
	"time"

	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

// Tokens issues the tokens for URLs.
type Tokens interface {
	LaunchToken(launchID string) (token string, expires time.Time, err error)     // the launch's control token
	PageToken(launchID string, page ticket.Page, until time.Time) (string, error) // an unspent control token; until is an optional expiry
	IsSpent(launchID string, c ticket.Claims, page ticket.Page) bool              // whether a token has opened a page
}

// Links builds the URLs of launches.
type Links struct {
	Address Address
	Tokens  Tokens
}

// TokenQuery returns the query parameter for a token: ?ct= or ?t= (specification
// 5.1).
func TokenQuery(use ticket.Use, token string) url.Values {
	return url.Values{queryName(use): {token}}
}

func queryName(use ticket.Use) string {
	if use == ticket.View {
		return ticketQuery
	}
	return tokenQuery
}

// URLs are the URLs of a launch. All contain the launch's control token, except that
// a page gets another token once it is spent there.
type URLs struct {
	ControlToken string
	Expires      time.Time // of ControlToken
	WebSocket    string    // CDP, of the browser
	DevTools     string    // the DevTools front end; empty if the build has none
	View         string    // the live view
	Page         string    // the browser's page
}

// ForLaunch returns the URLs of a launch (specification 2.4, 5.5).
func (l Links) ForLaunch(launchID, debugPath string, devtools bool) (URLs, error) {
	token, expires, err := l.Tokens.LaunchToken(launchID)
	if err != nil {
		return URLs{}, fmt.Errorf("get the control token: %w", err)
	}
	carry := map[ticket.Page]url.Values{}
	for _, page := range []ticket.Page{ticket.LivePage, ticket.BrowserPage} {
		forPage, err := l.Tokens.PageToken(launchID, page, time.Time{})
		if err != nil {
			return URLs{}, fmt.Errorf("get a control token for pages: %w", err)
		}
		carry[page] = TokenQuery(ticket.Control, forPage)
	}
	set := URLs{
		ControlToken: token,
		Expires:      expires,
		WebSocket:    l.Address.BrowserSocket(launchID, debugPath, TokenQuery(ticket.Control, token)),
		View:         l.Address.Browser(launchID, "view", carry[ticket.LivePage]),
		Page:         l.Address.Browser(launchID, "", carry[ticket.BrowserPage]),
	}
	if devtools {
		set.DevTools = l.Address.Browser(launchID, "devtools", carry[ticket.BrowserPage])
	}
	return set, nil
}

// TokenFor returns the control token for URLs in an answer: the token of the
// request, or that of the launch if the request used no token of the launch.
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

// PageTokenFor is TokenFor for URLs of pages of the browser: the token is unspent and expires no
// later than the token of the request.
func (l Links) PageTokenFor(v AuthorizedRequest) (string, error) {
	if v.Token != "" && !l.Tokens.IsSpent(v.LaunchID, v.Claims, ticket.BrowserPage) {
		return v.Token, nil
	}
	token, err := l.Tokens.PageToken(v.LaunchID, ticket.BrowserPage, v.Claims.Expires)
	if err != nil {
		return "", fmt.Errorf("get a control token for a page: %w", err)
	}
	return token, nil
}
