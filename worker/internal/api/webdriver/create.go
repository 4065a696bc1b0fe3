package webdriver

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// maxNewSession limits the body of a new session command, in bytes.
const maxNewSession = 1 << 20

// defaultWait is how long a session without waitSeconds waits for a slot, as in Selenium
// Grid (--session-request-timeout).
const defaultWait = 5 * time.Minute

// maxReason limits how much of an error of chromedriver is repeated, in characters.
const maxReason = 500

// newSession answers POST session.
func (s *Service) newSession(c echo.Context) error {
	created, err := s.create(c)
	if err != nil {
		return refusedLaunch(err)
	}
	return writeValue(c, created)
}

// create launches a browser, starts chromedriver for it and returns the value of the
// answer. After an error, neither runs.
func (s *Service) create(c echo.Context) (map[string]any, error) {
	command, request, err := s.readNewSession(c)
	if err != nil {
		return nil, err
	}
	if !s.begin() {
		return nil, fault.New(fault.Unavailable, "This worker is shutting down.")
	}
	defer s.work.Done()
	ctx, cancel := context.WithCancel(c.Request().Context()) // ends when the client disconnects
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	program := ""
	request.CheckBuild = func(build builds.Build) (err error) {
		program, err = s.FindDriver(ctx, build)
		return err
	}
	launched, err := s.Launches.Launch(ctx, request)
	if fault.Is(err, fault.Validation) {
		err = command.renameFields(err)
	}
	if err != nil {
		return nil, err
	}
	d, value, err := s.attach(ctx, launched, program, command)
	if err == nil {
		err = ctx.Err() // the client does not get the id
	}
	if err != nil {
		if d != nil {
			d.driver.Close()
		}
		s.endBrowser(launched, session.ClientClose)
		return nil, err
	}
	s.add(d)
	return value, nil
}

// readNewSession parses a request. The key is checked first: a caller without a key
// learns nothing about other errors.
func (s *Service) readNewSession(c echo.Context) (*newSession, launch.Request, error) {
	r := c.Request()
	body, err := io.ReadAll(http.MaxBytesReader(c.Response(), r.Body, maxNewSession))
	if err != nil {
		return nil, launch.Request{}, readError(err)
	}
	command, invalid := parseNewSession(body)
	token := ""
	if command != nil {
		token = command.token
	}
	key, err := requestKey(r, token)
	if err == nil {
		err = invalid
	}
	if err != nil {
		return nil, launch.Request{}, err
	}
	request, err := s.Parse(command.launchBody())
	if err != nil {
		return nil, launch.Request{}, command.renameFields(err)
	}
	request.DefaultIdle = s.IdleTimeout
	if command.body["waitSeconds"] == nil {
		request.Wait = defaultWait
	}
	if command.acceptInsecureCerts {
		request.Override.IgnoreHTTPSErrors = new(true)
	}
	if !s.IsWorkerKey(key) {
		request.OrganizationKey, request.Client = session.NewOrganizationKey(key), c.RealIP()
	}
	return command, request, nil
}

// attach starts chromedriver for a browser and its session with it. The result has the
// driver, if that has started, also after an error.
func (s *Service) attach(ctx context.Context, launched session.Session, program string, command *newSession) (*driverSession, map[string]any, error) {
	running, ok := s.Launches.Running(launched.LaunchID)
	if !ok {
		return nil, nil, fault.New(fault.Internal, "The browser did not start.")
	}
	if err := ensureTab(ctx, running.Browser.CDP()); err != nil {
		return nil, nil, fault.Wrap(err, fault.Internal, "The browser did not start.")
	}
	driver, err := running.Browser.StartDriver(ctx, program)
	if err != nil {
		return nil, nil, fault.Wrap(err, fault.Internal, "chromedriver did not start.")
	}
	running.Activity.Touch()
	d := newDriverSession(launched, running, driver)
	answer, err := d.open(ctx, command.forward)
	if err != nil {
		return d, nil, err
	}
	answer["acceptInsecureCerts"] = command.acceptInsecureCerts
	if d.managesDownloads = command.managesDownloads; d.managesDownloads { // clients may look only for the name
		answer[downloadsEnabled] = true
	}
	value, err := s.describe(d, answer)
	return d, value, err
}

// ensureTab opens a tab if the browser has none: chromedriver needs one.
func ensureTab(ctx context.Context, conn *cdp.Conn) error {
	var targets struct {
		TargetInfos []struct{ Type string }
	}
	if err := conn.Call(ctx, "", "Target.getTargets", nil, &targets); err != nil {
		return err
	}
	for _, target := range targets.TargetInfos {
		if target.Type == "page" {
			return nil
		}
	}
	return conn.Call(ctx, "", "Target.createTarget", map[string]any{"url": "about:blank"}, nil)
}

// open starts the session with chromedriver and returns its capabilities.
func (d *driverSession) open(ctx context.Context, forward map[string]any) (map[string]any, error) {
	options, _ := forward[chromeOptions].(map[string]any)
	if options == nil {
		options = map[string]any{}
	}
	options["debuggerAddress"] = browser.DriverBrowser
	forward[chromeOptions] = options
	body, err := json.Marshal(map[string]any{"capabilities": map[string]any{"alwaysMatch": forward}})
	if err != nil {
		return nil, err
	}
	response, err := d.send(ctx, http.MethodPost, "", "", bytes.NewReader(body))
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "chromedriver does not answer.")
	}
	defer response.Body.Close()
	var answer struct {
		Value struct {
			SessionID    string         `json:"sessionId"`
			Capabilities map[string]any `json:"capabilities"`
			Error        string         `json:"error"`
			Message      string         `json:"message"`
		} `json:"value"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxNewSession)).Decode(&answer); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "chromedriver returned an invalid answer.")
	}
	switch {
	case answer.Value.Error == invalidArgument:
		return nil, fault.Field("capabilities", "are refused by chromedriver: "+fault.Truncate(answer.Value.Message, maxReason))
	case answer.Value.Error != "" || answer.Value.SessionID == "":
		return nil, fault.New(fault.Internal, "chromedriver did not attach to the browser: "+fault.Truncate(answer.Value.Message, maxReason))
	}
	if answer.Value.Capabilities == nil {
		return nil, fault.New(fault.Internal, "chromedriver returned an invalid answer.")
	}
	d.driverID = answer.Value.SessionID
	return answer.Value.Capabilities, nil
}

// describe returns the value of the answer to a new session command.
func (s *Service) describe(d *driverSession, capabilities map[string]any) (map[string]any, error) {
	urls, err := s.Links.ForLaunch(d.launched.LaunchID.String(), d.launched.DebugPath, d.launched.DevTools)
	if err != nil {
		return nil, fmt.Errorf("build the URLs: %w", err)
	}
	// Without the address of the debugging server, which clients cannot reach. webdriverio
	// has the commands of Chromium only if the capability exists.
	capabilities[chromeOptions] = map[string]any{}
	if capabilities["webSocketUrl"] != nil {
		capabilities["webSocketUrl"] = s.Links.Address.Socket(hub + "/session/" + d.id)
		capabilities["se:bidi"] = capabilities["webSocketUrl"] // which Selenium for Java prefers
	}
	// Selenium for JavaScript takes another path for the address of a debugging port.
	capabilities["se:cdp"], capabilities["se:cdpVersion"] = s.Links.Address.Socket(hub+"/session/"+d.id+cdpPath), d.version
	capabilities["se:vncEnabled"], capabilities["se:vnc"] = true, s.Links.Address.Socket(hub+"/session/"+d.id+vncPath)
	own := map[string]any{
		"sessionId": d.launched.ID, "launchId": d.launched.LaunchID, "profileId": d.launched.ProfileID,
		"webSocketDebuggerUrl": urls.WebSocket, "viewUrl": urls.View,
	}
	if recorded := s.Recording(d.launched); recorded != nil {
		own["recording"] = recorded
	}
	capabilities["svc:session"] = own
	return map[string]any{"sessionId": d.id, "capabilities": capabilities}, nil
}

// newID returns the id of a session, which is the credential of its commands. It has
// the form of an organization key, so that logs mask it.
func newID() string { return "svc_" + strings.ToLower(rand.Text() + rand.Text())[:32] }
