package rest

import (
	"fmt"
	"net/url"
	"time"

	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/ticket"
)

// Minter makes the tokens that URLs carry.
type Minter interface {
	Mint(launchID string, use ticket.Use) (token string, expires time.Time, err error)
}

// URLs builds a launch's addresses from the one configured public base, never
// from what a request says of itself.
type URLs struct {
	Public *url.URL // scheme, host and, behind a load balancer, a path such as /w/<id>
	Tokens Minter
}

type urls struct{ webSocket, devtools, view string }

// of returns the URLs of a launch, each with the same new control token
// (specification 2.4, 5.5).
func (u URLs) of(s session.Session) (urls, error) {
	launchID := s.LaunchID.String()
	token, _, err := u.Tokens.Mint(launchID, ticket.Control)
	if err != nil {
		return urls{}, fmt.Errorf("mint a control token: %w", err)
	}
	base := u.Public.JoinPath("browsers", launchID)
	base.RawQuery = url.Values{"ct": {token}}.Encode()
	webSocket := base.JoinPath(s.DebugPath)
	webSocket.Scheme = map[string]string{"http": "ws", "https": "wss"}[base.Scheme]
	return urls{webSocket.String(), base.JoinPath("devtools").String(), base.JoinPath("view").String()}, nil
}
