package webdriver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/cdp/intercept"
	"github.com/browser-svc/svc/worker/internal/session"
)

const (
	maxCommand = 32 << 20        // of a command's body, in bytes
	endTimeout = 2 * time.Second // between the end of chromedriver's answer and the end of the browser
)

// command answers a command of a session.
func (s *Service) command(c echo.Context) error {
	d, ok := s.find(c.Param(sessionParam))
	if !ok {
		return errNoSession()
	}
	r := c.Request()
	path, raw := below(r.URL.Path, d.id), below(r.URL.EscapedPath(), d.id)
	switch method := r.Method; {
	case path == "" && method == http.MethodGet:
		return s.socket(c, d)
	case path == cdpPath && method == http.MethodGet:
		return s.redirect(c, d, d.launched.DebugPath)
	case path == vncPath && method == http.MethodGet:
		return s.redirect(c, d, "/vnc")
	case path == "" && method == http.MethodDelete:
		return s.quit(c, d)
	}
	defer d.running.Activity.Begin()()
	if handoverCtx := d.running.Handovers.Held(); handoverCtx != nil {
		select {
		case <-handoverCtx.Done():
		case <-r.Context().Done():
			return d.unanswered(r.Context().Err())
		}
	}
	switch {
	case r.Method == http.MethodPost && (path == "/se/file" || path == "/file"):
		return d.upload(c)
	case path == downloadsPath:
		return d.downloads(c)
	}
	return s.forward(c, d, path, raw)
}

// below returns the part of a path after the session's id.
func below(path, id string) string {
	_, rest, _ := strings.Cut(path, id)
	return rest
}

// quit answers DELETE session/{id}: the browser ends.
func (s *Service) quit(c echo.Context, d *driverSession) error {
	if _, err := s.Launches.KillLaunch(c.Request().Context(), d.launched.LaunchID, session.ByRequest); err != nil {
		return err
	}
	return writeValue(c, nil)
}

// forward sends a command to chromedriver and returns its answer, with the id of the launched
// session instead of chromedriver's own, which its errors and its log contain.
func (s *Service) forward(c echo.Context, d *driverSession, path, raw string) error {
	r := c.Request()
	body, err := io.ReadAll(http.MaxBytesReader(c.Response(), r.Body, maxCommand)) // chromedriver does not read chunks
	if err != nil {
		return readError(err)
	}
	observed := d.observe(r.Method, path, body)
	response, err := d.send(r.Context(), r.Method, path, raw, bytes.NewReader(body))
	if err != nil {
		observed.fail(err)
		return d.unanswered(err)
	}
	defer response.Body.Close()
	answer := observed.read(response)
	if r.Method == http.MethodDelete && path == "/window" {
		if answer, err = s.windowClosed(d, response); err != nil {
			return d.unanswered(err)
		}
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	return c.Stream(response.StatusCode, response.Header.Get(echo.HeaderContentType), newReplacingReader(answer, d.driverID, d.launched.ID.String()))
}

// windowClosed ends the browser if the last window was closed, which ends the session.
func (s *Service) windowClosed(d *driverSession, response *http.Response) (io.Reader, error) {
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var windows struct {
		Value []string `json:"value"`
	}
	if response.StatusCode == http.StatusOK && json.Unmarshal(raw, &windows) == nil && len(windows.Value) == 0 {
		s.endBrowser(d.launched, session.ByRequest)
	}
	return bytes.NewReader(raw), nil
}

// unanswered returns the error for a command that chromedriver did not answer.
func (d *driverSession) unanswered(err error) error {
	if errors.Is(err, context.Canceled) {
		return fault.Wrap(err, fault.Unavailable, "The client has disconnected.")
	}
	select {
	case <-d.driver.Done(): // it also ends with the browser
		return errNoSession()
	case <-time.After(endTimeout):
		return &commandError{http.StatusInternalServerError, unknownError, fault.Wrap(err, fault.Internal, "chromedriver does not answer.")}
	}
}

// readError returns the error for a body that could not be read.
func readError(err error) error {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		err = fault.Oversized(err, tooLarge.Limit)
	} else {
		err = fault.Wrap(err, fault.Validation, "The request body is incomplete.", invalidDetail("body", "must be complete"))
	}
	return &commandError{http.StatusBadRequest, invalidArgument, fault.From(err)}
}

// cdpPath is the path of the CDP socket below a session, as in Selenium's own server.
const cdpPath = "/se/cdp"

// redirect answers like a route of the launch, with the control token.
func (s *Service) redirect(c echo.Context, d *driverSession, path string) error {
	token, _, err := s.Links.Tokens.LaunchToken(d.launched.LaunchID.String())
	if err != nil {
		return err
	}
	r := c.Request()
	r.URL.Path, r.URL.RawPath = "/browsers/"+d.launched.LaunchID.String()+path, ""
	r.Header.Set(access.TokenHeader, token)
	c.Echo().Router().Find(r.Method, r.URL.Path, c)
	return c.Handler()(c)
}

// socket connects a client with the WebDriver BiDi socket of chromedriver until either
// side, the browser or the worker ends.
func (s *Service) socket(c echo.Context, d *driverSession) error {
	r := c.Request()
	if err := ws.CheckHandshake(r); err != nil {
		return &commandError{http.StatusBadRequest, invalidArgument, fault.From(err)}
	}
	if !s.begin() {
		return fault.New(fault.Unavailable, "This worker is shutting down.")
	}
	defer s.work.Done()
	up, err := ws.DialUpstream(r.Context(), d.driver.Dial, driverHost, "/session/"+d.driverID, r.Header)
	if refused, ok := errors.AsType[*ws.RefusedError](err); ok {
		return &commandError{http.StatusBadRequest, invalidArgument, fault.Wrap(
			refused, fault.Validation, "This session has no WebDriver BiDi socket.", invalidDetail("webSocketUrl", "must be true in the capabilities of the session"),
		)}
	}
	if err != nil {
		return d.unanswered(err)
	}
	client, err := up.TakeOver(c.Response(), nil)
	if err != nil {
		_ = up.Conn.Close()
		return err
	}
	intercept.NewRelay(client, &up.Raw, intercept.RelayOptions{
		Calls: d.running.Browser.Calls(), Done: d.driver.Done(), Watch: d.running.Activity.Watch,
	}).Run(s.ctx)
	return nil
}
