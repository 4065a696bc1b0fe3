package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/ws"
)

// soakScenario is one course of a launch. run returns the session that has ended; nil if its
// client does not know it.
type soakScenario struct {
	name    string
	run     func(ctx context.Context, s scenarioTest) (*workerapi.BrowserSession, error)
	reasons []string // allowed end reasons
}

func soakScenarios() []soakScenario {
	return []soakScenario{
		{"ended by DELETE", func(ctx context.Context, s scenarioTest) (*workerapi.BrowserSession, error) {
			return s.driveThen(ctx, s.worker.delete)
		}, []string{"killed"}},
		{"ended by Browser.close", func(ctx context.Context, s scenarioTest) (*workerapi.BrowserSession, error) {
			return s.driveThen(ctx, func(ctx context.Context, launched workerapi.BrowserSession) error {
				return closeBrowser(ctx, *launched.WebSocketDebuggerUrl)
			})
		}, []string{"client_close"}},
		{"browser killed", func(ctx context.Context, s scenarioTest) (*workerapi.BrowserSession, error) {
			return s.driveThen(ctx, func(_ context.Context, launched workerapi.BrowserSession) error {
				return s.killPart(launched, "--remote-debugging-pipe")
			})
		}, []string{"crash", "oom"}},
		{"display killed", func(ctx context.Context, s scenarioTest) (*workerapi.BrowserSession, error) {
			s.settings.Headless = new(false)
			return s.driveThen(ctx, func(_ context.Context, launched workerapi.BrowserSession) error { return s.killPart(launched, "Xvnc") })
		}, []string{"crash", "client_close"}},
		{"ended by the idle limit", func(ctx context.Context, s scenarioTest) (*workerapi.BrowserSession, error) {
			s.settings.IdleTimeoutSeconds = new(int32(1))
			return s.launch(ctx)
		}, []string{"idle"}},
		{"ended by the maximum duration", func(ctx context.Context, s scenarioTest) (*workerapi.BrowserSession, error) {
			s.settings.MaxDurationSeconds = new(int32(2))
			return s.launch(ctx)
		}, []string{"max_duration"}},
		{"frozen, used and frozen again", freezeTwice, []string{"killed"}},
		{"client cut off", cutClient, []string{"killed"}},
		{"live view cut off", cutView, []string{"killed"}},
		{"socket closed", closeSocket, []string{"client_close"}},
		{"socket cut off", cutSocket, nil},
		{"launch canceled", cancelLaunch, nil},
		{"refused: the proxy is unreachable", refuseProxy, nil},
	}
}

// scenarioTest runs scenarios. Each run has a copy with its own settings.
type scenarioTest struct {
	soakTest
	cutting   *cuttingProxy
	profileID uuid.UUID
	settings  workerapi.BrowserSettings
}

// run runs a scenario and waits until its session has ended for an allowed reason.
func (s scenarioTest) run(ctx context.Context, scenario soakScenario) (*workerapi.BrowserSession, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	launched, err := scenario.run(ctx, s)
	if err != nil || launched == nil {
		return nil, err
	}
	session, err := s.await(ctx, launched.Id, func(b workerapi.BrowserSession) bool { return b.Status != sharedapi.SessionStatusRunning })
	if err == nil && (session.EndReason == nil || !slices.Contains(scenario.reasons, string(*session.EndReason))) {
		err = fmt.Errorf("session %s ended for %v, want one of %v", session.Id, session.EndReason, scenario.reasons)
	}
	if err != nil {
		return nil, err
	}
	return &session, nil
}

// await polls a session until it is in a state.
func (s scenarioTest) await(ctx context.Context, id uuid.UUID, reached func(workerapi.BrowserSession) bool) (workerapi.BrowserSession, error) {
	for {
		answer, err := s.worker.api.GetBrowserSessionWithResponse(ctx, id)
		if err != nil || answer.JSON200 == nil || reached(answer.JSON200.Data) {
			if err == nil && answer.JSON200 == nil {
				err = fmt.Errorf("the session was answered %s", answer.Status())
			}
			if err != nil {
				return workerapi.BrowserSession{}, err
			}
			return answer.JSON200.Data, nil
		}
		select {
		case <-ctx.Done():
			return answer.JSON200.Data, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// launch launches a browser, half of them headful.
func (s scenarioTest) launch(ctx context.Context) (*workerapi.BrowserSession, error) {
	if s.settings.Headless == nil {
		s.settings.Headless = new(rand.IntN(2) == 0)
	}
	s.settings.TimeoutMs = new(int32(90_000)) // generous: the test is for leaks, not for speed
	answer, err := s.worker.api.LaunchProfileWithResponse(ctx, workerapi.LaunchProfileRequest{ProfileId: &s.profileID, Browser: &s.settings})
	if err != nil {
		return nil, err
	}
	if answer.JSON201 == nil {
		return nil, fmt.Errorf("the launch was answered %s: %s", answer.Status(), answer.Body)
	}
	return &answer.JSON201.Data, nil
}

// driveThen launches a browser, drives it and ends it.
func (s scenarioTest) driveThen(ctx context.Context, end func(context.Context, workerapi.BrowserSession) error) (*workerapi.BrowserSession, error) {
	launched, err := s.launch(ctx)
	if err != nil {
		return nil, err
	}
	return launched, errors.Join(drive(ctx, *launched.WebSocketDebuggerUrl), end(ctx, *launched))
}

// drive opens a page.
func drive(ctx context.Context, endpoint string) error {
	conn, err := ws.Dial(ctx, endpoint, nil, ws.Options{})
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	return driveOver(ctx, conn)
}

func driveOver(ctx context.Context, conn *ws.Conn) error {
	answer, err := exchangeCDP(ctx, conn, "Target.createTarget", `{"url":"data:text/html,<title>soak</title>"}`)
	if err == nil && answer.text("result.targetId") == "" {
		err = fmt.Errorf("Target.createTarget was answered %s", answer.body)
	}
	return err
}

// killPart kills the process of a launch whose command contains the text.
func (s scenarioTest) killPart(launched workerapi.BrowserSession, text string) error {
	dir := filepath.Join(s.worker.launches, launched.LaunchId.String())
	for _, p := range processes(func(p process) bool { return p.references(dir) }) {
		if strings.Contains(p.command, text) && !strings.Contains(p.command, "--type=") {
			return syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
	return fmt.Errorf("the launch has no process with %s", text)
}

func freezeTwice(ctx context.Context, s scenarioTest) (*workerapi.BrowserSession, error) {
	launched, err := s.launch(ctx)
	for range 2 {
		if err == nil {
			err = drive(ctx, *launched.WebSocketDebuggerUrl)
		}
		if err == nil && !strings.Contains(s.worker.logText(), "FREEZE_IDLE_SECONDS has no effect") {
			_, err = s.await(ctx, launched.Id, func(b workerapi.BrowserSession) bool { return b.Frozen != nil && *b.Frozen })
		}
	}
	if err != nil {
		return nil, err
	}
	return launched, s.worker.delete(ctx, *launched)
}

// throughCut connects to the worker through the cutting proxy and uses the connection until it is cut.
func (s scenarioTest) throughCut(ctx context.Context, endpoint string, header http.Header) {
	parts, err := url.Parse(endpoint)
	if err != nil {
		return
	}
	parts.Scheme, parts.Host = "ws", s.cutting.Addr().String()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second) // it may hang instead
	defer cancel()
	conn, err := ws.Dial(ctx, parts.String(), header, ws.Options{})
	if err != nil {
		return // it may be cut in the handshake
	}
	defer conn.CloseNow()
	message := fmt.Appendf(nil, `{"id":1,"method":"Runtime.evaluate","params":{"expression":%q}}`, strings.Repeat("x", 256<<10))
	for conn.Write(ctx, ws.Text, message) == nil && ctx.Err() == nil {
		if _, _, err := conn.Read(ctx); err != nil {
			return
		}
	}
}

// cutClient cuts a client off. The browser keeps running.
func cutClient(ctx context.Context, s scenarioTest) (*workerapi.BrowserSession, error) {
	return s.driveThen(ctx, func(ctx context.Context, launched workerapi.BrowserSession) error {
		s.throughCut(ctx, *launched.WebSocketDebuggerUrl, nil)
		return errors.Join(drive(ctx, *launched.WebSocketDebuggerUrl), s.worker.delete(ctx, launched))
	})
}

// cutView cuts a viewer off. The browser keeps running.
func cutView(ctx context.Context, s scenarioTest) (*workerapi.BrowserSession, error) {
	return s.driveThen(ctx, func(ctx context.Context, launched workerapi.BrowserSession) error {
		s.throughCut(ctx, strings.Replace(*launched.ViewUrl, "/view?", "/vnc?", 1), http.Header{"Sec-Websocket-Protocol": {"binary"}})
		return errors.Join(drive(ctx, *launched.WebSocketDebuggerUrl), s.worker.delete(ctx, launched))
	})
}

// socketEndpoint returns the URL that launches a browser whose session ends with its connection.
func (s scenarioTest) socketEndpoint() string {
	env, _ := json.Marshal(map[string]any{"SVC_KEY": s.key, "profileId": s.profileID}) //nolint:errchkjson // encoding strings never fails
	return "ws://" + s.worker.address + "/launch?env=" + url.QueryEscape(string(env))
}

func closeSocket(ctx context.Context, s scenarioTest) (*workerapi.BrowserSession, error) {
	conn, err := ws.Dial(ctx, s.socketEndpoint(), nil, ws.Options{})
	if err != nil {
		return nil, err
	}
	defer conn.CloseNow()
	answer, err := exchangeCDP(ctx, conn, "Svc.getSessionInfo", `{}`)
	if err != nil {
		return nil, err
	}
	id, err := uuid.Parse(answer.text("result.sessionId"))
	if err == nil {
		err = driveOver(ctx, conn)
	}
	_ = conn.Close(ws.NormalClosure, "") // the browser may not answer the close frame
	return &workerapi.BrowserSession{Id: id}, err
}

// cutSocket cuts off the client of a socket, in the launch or later.
func cutSocket(ctx context.Context, s scenarioTest) (*workerapi.BrowserSession, error) {
	s.throughCut(ctx, s.socketEndpoint(), nil)
	return nil, nil
}

// cancelLaunch disconnects during the launch.
func cancelLaunch(ctx context.Context, s scenarioTest) (*workerapi.BrowserSession, error) {
	impatient, cancel := context.WithTimeout(ctx, rand.N(250*time.Millisecond))
	defer cancel()
	if launched, err := s.launch(impatient); err == nil { // the launch was faster
		return nil, s.worker.delete(ctx, *launched)
	}
	return nil, nil
}

func refuseProxy(ctx context.Context, s scenarioTest) (*workerapi.BrowserSession, error) {
	answer, err := s.worker.api.LaunchProfileWithResponse(ctx, workerapi.LaunchProfileRequest{
		ProfileId: &s.profileID, ProxyOverride: json.RawMessage(`{"server":"http://127.0.0.1:1"}`),
	})
	if err == nil && answer.StatusCode() != http.StatusBadRequest {
		err = fmt.Errorf("a launch with an unreachable proxy was answered %s: %s", answer.Status(), answer.Body)
	}
	return nil, err
}
