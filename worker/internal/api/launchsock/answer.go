package launchsock

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/worker/internal/cdp/intercept"
	"github.com/browser-svc/svc/worker/internal/session"
)

// Error codes of CDP, as in JSON-RPC.
const (
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
	codeServer         = -32000
)

// call is a CDP message to the worker.
type call struct {
	ID        json.RawMessage `json:"id"`
	Method    string          `json:"method"`
	SessionID json.RawMessage `json:"sessionId"`
}

// sessionInfo is the result of Svc.getSessionInfo.
type sessionInfo struct {
	SessionID      string    `json:"sessionId"`
	LaunchID       string    `json:"launchId"`
	Status         string    `json:"status"`
	StartedAt      time.Time `json:"startedAt"`
	ProfileID      string    `json:"profileId"`
	ProfileName    string    `json:"profileName"`
	BrowserVersion int       `json:"browserVersion"`
	Headless       bool      `json:"headless"`
	Bundle         *bundle   `json:"bundle"` // null for none

	Recording *workerapi.Recording `json:"recording"` // null for none

	ControlToken string    `json:"controlToken"`
	ExpiresAt    time.Time `json:"expiresAt"` // of the token
}

// bundle is the identity of the browser.
type bundle struct {
	Filename string `json:"filename"`
	Name     string `json:"name"`
}

// browserURLs is the result of Svc.getBrowserURLs; each URL carries ?ct=.
type browserURLs struct {
	WebSocketDebuggerURL string `json:"webSocketDebuggerUrl"`
	DevtoolsFrontendURL  string `json:"devtoolsFrontendUrl,omitempty"` // if the build has a front end
	ViewURL              string `json:"viewUrl"`
	PageURL              string `json:"pageUrl"`
}

// reply answers a message to the worker.
func (s *Service) reply(message []byte, launched session.Session) intercept.Answer {
	var c call
	if len(message) > intercept.MaxWorkerMessage {
		return intercept.Answer{Error: &intercept.Error{Code: codeInvalidRequest, Message: "The message is too long."}}
	}
	if err := json.Unmarshal(message, &c); err != nil {
		return intercept.Answer{Error: &intercept.Error{Code: codeInvalidRequest, Message: "The message is not valid."}}
	}
	var id int64
	if json.Unmarshal(c.ID, &id) != nil || string(c.ID) == "null" {
		return intercept.Answer{SessionID: c.SessionID, Error: &intercept.Error{Code: codeInvalidRequest, Message: "Message must have integer 'id' property"}}
	}
	answer := intercept.Answer{ID: c.ID, SessionID: c.SessionID}
	var err error
	switch c.Method {
	case intercept.MethodPrefix + "getSessionInfo":
		answer.Result, err = s.sessionInfo(launched)
	case intercept.MethodPrefix + "getBrowserURLs":
		answer.Result, err = s.browserURLs(launched)
	default:
		answer.Error = &intercept.Error{Code: codeNoMethod, Message: fmt.Sprintf("'%s' wasn't found", c.Method)}
	}
	if err != nil {
		s.Logger.Error("failed to answer call", "method", c.Method, "launchId", launched.LaunchID, "error", err)
		answer.Result, answer.Error = nil, &intercept.Error{Code: codeServer, Message: "Something went wrong on our side."}
	}
	return answer
}

func (s *Service) sessionInfo(launched session.Session) (any, error) {
	token, expires, err := s.Links.Tokens.LaunchToken(launched.LaunchID.String())
	if err != nil {
		return nil, fmt.Errorf("get the control token: %w", err)
	}
	var chosen *bundle
	if launched.Bundle != (session.Bundle{}) {
		chosen = &bundle{Filename: launched.Bundle.Filename, Name: launched.Bundle.Name}
	}
	return sessionInfo{
		SessionID: launched.ID.String(), LaunchID: launched.LaunchID.String(), Status: string(launched.Status), StartedAt: launched.StartedAt,
		ProfileID: launched.ProfileID.String(), ProfileName: launched.ProfileName, BrowserVersion: launched.BrowserVersion, Headless: launched.Headless, Bundle: chosen,
		Recording:    s.Recording(launched),
		ControlToken: token, ExpiresAt: expires,
	}, nil
}

func (s *Service) browserURLs(launched session.Session) (any, error) {
	set, err := s.Links.ForLaunch(launched.LaunchID.String(), launched.DebugPath, launched.DevTools)
	if err != nil {
		return nil, fmt.Errorf("build the URLs: %w", err)
	}
	return browserURLs{WebSocketDebuggerURL: set.WebSocket, DevtoolsFrontendURL: set.DevTools, ViewURL: set.View, PageURL: set.Page}, nil
}
