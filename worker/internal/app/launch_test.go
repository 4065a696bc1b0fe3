package app_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// dial connects to a browser through the worker and waits for an answer.
func (r *testWorker) dial(t *testing.T, address string) error {
	t.Helper()
	conn, err := ws.Dial(t.Context(), address, nil, ws.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	if err := conn.Write(t.Context(), ws.Text, []byte(`{"id":1,"method":"Browser.getVersion"}`)); err != nil {
		return err
	}
	_, answer, err := conn.Read(t.Context())
	if err == nil && !strings.Contains(string(answer), `"product"`) {
		err = fmt.Errorf("the browser answered %s", answer)
	}
	return err
}

// TestSession_Lifecycle launches, lists, reads, drives and ends a session over HTTP,
// and checks the reports to the cloud.
func TestSession_Lifecycle(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withCompleteBrowsers, func(c *app.Config) {
		c.PublicURL = fmt.Sprintf("http://localhost:%d", c.Port)
		c.WorkerID = "worker-1"
	})
	profile := r.cloud.Profile(r.version, func(c *cloudapi.ProfileConfig) { c.Metadata = sharedapi.Metadata{"team": "checkout"} })
	s := r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q,"browser":{"metadata":{"run":"7"}}}`, profile), "Host", "evil.example")
	if s.Status != sharedapi.SessionStatusRunning || s.ProfileId != profile || s.ProfileName != "Checkout" || int(s.BrowserVersion) != r.version ||
		!s.Headless || s.DebugPort == nil || s.EndedAt != nil || s.EndReason != nil || s.ExitCode != nil {
		t.Errorf("session %+v", s)
	}
	if diff := cmp.Diff(sharedapi.Metadata{"team": "checkout", "run": "7"}, s.Metadata); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	base := fmt.Sprintf("://localhost:%d/w/worker-1/browsers/%s/", r.config.Port, s.LaunchId)
	for _, address := range []string{*s.WebSocketDebuggerUrl, *s.DevtoolsFrontendUrl, *s.ViewUrl} {
		if !strings.Contains(address, base) {
			t.Errorf("%s does not start with the public URL %s", address, base)
		}
	}
	if err := r.dial(t, *s.WebSocketDebuggerUrl); err != nil { // with the prefix, as some load balancers forward it
		t.Error(err)
	}
	if err := r.dial(t, strings.Replace(*s.WebSocketDebuggerUrl, "/w/worker-1", "", 1)); err != nil {
		t.Error(err)
	}
	status, text := r.call(contracttest.AllowUndocumentedRoute(t.Context()), t, "GET", "/w/worker-1/sessions/"+s.Id.String(), "", "X-API-Key", workerKey)
	if read := decode[workerapi.BrowserSessionResponse](t, text); status != 200 || read.Data.Id != s.Id {
		t.Errorf("below the prefix: got %d %s", status, text)
	}
	if status, text := r.call(t.Context(), t, "GET", "/sessions?status=running", "", "X-API-Key", workerKey); status != 200 || !strings.Contains(string(text), s.Id.String()) {
		t.Errorf("list: got %d %s", status, text)
	}
	r.cloud.Await(t, 0, 1)

	ended := r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
	if ended.Status != sharedapi.SessionStatusKilled || *ended.EndReason != "killed" || ended.WebSocketDebuggerUrl != nil || ended.DebugPort != nil {
		t.Errorf("ended %+v", ended)
	}
	r.assertNoLeftovers(t)
	if err := r.dial(t, *s.WebSocketDebuggerUrl); err == nil {
		t.Error("the token is still valid after the browser has ended")
	}
	r.cloud.Await(t, 0, 0)
	r.assertReported(t, s.Id, "worker-1")
}

// assertReported checks the calls to the cloud for one session.
func (r *testWorker) assertReported(t *testing.T, id uuid.UUID, machine string) {
	t.Helper()
	var operations []cloudtest.Operation
	for _, call := range r.cloud.Calls(cloudtest.Authorize, cloudtest.Start, cloudtest.End) {
		operations = append(operations, call.Operation)
		if call.SessionID != id {
			t.Errorf("%s of session %s, want %s", call.Operation, call.SessionID, id)
		}
		if call.Authorize != nil && call.Authorize.MachineId != machine {
			t.Errorf("the machine is %s", call.Authorize.MachineId)
		}
	}
	if diff := cmp.Diff([]cloudtest.Operation{cloudtest.Authorize, cloudtest.Start, cloudtest.End}, operations); diff != "" {
		t.Errorf("calls to the cloud (-want +got):\n%s", diff)
	}
}

func TestLaunch_SpecUsesNewestBrowser(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	s := r.session(t, "POST", "/sessions/profile", `{"spec":{"locale":"fr-FR"},"proxyOverride":null}`)
	if int(s.BrowserVersion) != r.version || s.ProfileName != "For one launch" {
		t.Errorf("session %+v", s)
	}
	if spec := r.cloud.Calls(cloudtest.Authorize)[0].Authorize.Spec; spec == nil || *spec.Locale != "fr-FR" || int(*spec.BrowserVersion) != r.version {
		t.Errorf("authorize request %+v", spec)
	}
}

func TestLaunch_UninstalledVersionNamesInstalledOne(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	for name, body := range map[string]string{
		"a spec":    `{"spec":{"browserVersion":91}}`,
		"a profile": fmt.Sprintf(`{"profileId":%q}`, r.cloud.Profile(91)),
	} {
		status, text := r.call(t.Context(), t, "POST", "/sessions/profile", body, "X-API-Key", workerKey)
		got := decode[failure](t, text)
		if status != 400 || got.Error.Code != "RESOURCE_NOT_FOUND" || len(got.Error.Details) != 1 {
			t.Fatalf("%s: answered %d %s", name, status, text)
		}
		d := got.Error.Details[0]
		want := map[string]any{"availableVersions": []any{float64(r.version)}}
		if d.Field != "browserVersion" || d.Code != "RESOURCE_NOT_FOUND" || d.Received != float64(91) || !cmp.Equal(d.Constraint, want) {
			t.Errorf("%s: detail %+v", name, d)
		}
	}
	r.cloud.Await(t, 0, 0)
}

// TestLaunch_CloudRefusalStartsAndEndsNoBrowser is specification 3.2: launches fail
// closed, and running browsers continue.
func TestLaunch_CloudRefusalStartsAndEndsNoBrowser(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	running := r.launch(t)
	r.cloud.Limit(1)
	for _, tc := range []struct {
		name, reason, code string
		answer             cloudtest.Answer
		before, after      func()
		status             int
	}{
		{name: "full", status: 402, code: "AUTHORIZATION_ERROR", reason: "concurrency_limit"},
		{name: "profile limit reached", status: 402, code: "AUTHORIZATION_ERROR", reason: "profile_limit",
			answer: cloudtest.JSON(402, `{"success":true,"data":{"allowed":false,"reason":"profile_limit","current":1,"limit":1}}`)},
		{name: "no such profile", status: 404, code: "RESOURCE_NOT_FOUND", answer: nil},
		{name: "a revoked key", status: 424, code: "AUTHENTICATION_ERROR", before: func() { r.cloud.Revoke(true) }, after: func() { r.cloud.Revoke(false) }},
		{name: "down", status: 503, code: "EXTERNAL_SERVICE_ERROR", before: func() { r.cloud.Down(true) }, after: func() { r.cloud.Down(false) }},
		{name: "nonsense", status: 503, code: "EXTERNAL_SERVICE_ERROR", answer: cloudtest.JSON(200, `{"success":true,"data":{}}`)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			profile := r.cloud.Profile(r.version)
			if tc.status == 404 {
				profile = uuid.New()
			}
			if tc.answer != nil {
				r.cloud.Script(cloudtest.Authorize, tc.answer)
			}
			if tc.before != nil {
				tc.before()
				defer tc.after()
			}
			status, text := r.call(t.Context(), t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q}`, profile), "X-API-Key", workerKey)
			got := decode[failure](t, text)
			if status != tc.status || got.Error.Code != tc.code {
				t.Errorf("answered %d %s", status, text)
			}
			if tc.reason != "" {
				want := map[string]any{"reason": tc.reason, "current": float64(1), "limit": float64(1)}
				if d := got.Error.Details; len(d) != 1 || d[0].Field != "profileId" || d[0].Code != "CUSTOM" || d[0].Message != tc.reason || !cmp.Equal(d[0].Constraint, want) {
					t.Errorf("details %+v", d)
				}
			}
			if err := r.dial(t, *running.WebSocketDebuggerUrl); err != nil {
				t.Errorf("the running browser: %v", err)
			}
		})
	}
	r.cloud.Await(t, 0, 1)
}

func TestReports_DeliveredAfterOutage(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	r.cloud.Always(cloudtest.Start, cloudtest.Reset)
	r.cloud.Always(cloudtest.End, cloudtest.Reset)
	s := r.launch(t)
	r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
	r.cloud.Await(t, 1, 0)
	r.cloud.Always(cloudtest.Start, nil)
	r.cloud.Always(cloudtest.End, nil)
	r.cloud.Await(t, 0, 0)
	r.assertReported(t, s.Id, r.cloud.Calls(cloudtest.Authorize)[0].Authorize.MachineId)
}

func TestReports_UnknownSessionReportedAgain(t *testing.T) {
	fake := cloudtest.New(t)
	fake.HeartbeatEvery(time.Second)
	r := startTestWorker(t, fake)
	s := r.launch(t)
	fake.Forget(s.Id)
	fake.Await(t, 0, 1)
	if starts := fake.Calls(cloudtest.Start); len(starts) != 2 || starts[0].Start.Seq != starts[1].Start.Seq {
		t.Errorf("starts %+v", starts)
	}
}
