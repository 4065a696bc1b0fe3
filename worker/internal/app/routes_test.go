package app_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// viewTicket requests a view ticket of a launch.
func (r *testWorker) viewTicket(t *testing.T, s workerapi.BrowserSession) string {
	t.Helper()
	status, text := r.call(t.Context(), t, "POST", "/browsers/"+s.LaunchId.String()+"/view-ticket", `{"ttlSeconds":60}`, "X-Svc-Token", token(*s.ViewUrl))
	if status != 200 {
		t.Fatalf("view ticket: got %d %s", status, text)
	}
	answer := decode[workerapi.ViewTicketResponse](t, text).Data
	if left := time.Until(answer.ViewExpiresAt); left > time.Minute || left < 30*time.Second {
		t.Errorf("the ticket lasts %s, want a minute", left)
	}
	r.secrets = append(r.secrets, answer.ViewTicket, answer.ControlToken)
	return answer.ViewTicket
}

// handshake contains the headers of a WebSocket upgrade.
var handshake = []string{
	"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==",
}

// upgrade requests a WebSocket and returns the answer: 101, or a refusal.
func (r *testWorker) upgrade(t *testing.T, path string, headers http.Header) (status int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	all := slices.Clone(handshake)
	for name, values := range headers {
		all = append(all, name, values[0])
	}
	status, text := r.call(contracttest.AllowInvalidRequest(ctx), t, "GET", path, "", all...)
	return status, string(text)
}

// TestBrowserRoutes_Credentials is specification 5.1 and 5.5, on the assembled
// worker.
func TestBrowserRoutes_Credentials(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withCompleteBrowsers)
	s, other := r.launch(t), r.launch(t)
	id := s.LaunchId.String()
	base, control, view := "/browsers/"+id, token(*s.ViewUrl), r.viewTicket(t, s)
	_, guid, _ := strings.Cut(*s.WebSocketDebuggerUrl, "/devtools/browser/")
	guid, _, _ = strings.Cut(guid, "?")
	viewCookie := ticket.CookieName(id, ticket.View) + "=" + view
	console := r.consoleToken(t)
	for _, credential := range []struct {
		name          string
		header, value string
		control, view bool
	}{
		{"none", "", "", false, false},
		{"control token", "X-Svc-Token", control, true, true},
		{"control cookie", "Cookie", ticket.CookieName(id, ticket.Control) + "=" + control, true, true},
		{"worker key", "X-API-Key", workerKey, true, true},
		{"console cookie", "Cookie", "svc_console=" + console, true, true},
		{"console token as control token", "X-Svc-Token", console, false, false},
		{"control token as console cookie", "Cookie", "svc_console=" + control, false, false},
		{"view ticket as console cookie", "Cookie", "svc_console=" + view, false, false},
		{"view cookie", "Cookie", viewCookie, false, true},
		{"view ticket as control token", "X-Svc-Token", view, false, false},
		{"view ticket as control cookie", "Cookie", ticket.CookieName(id, ticket.Control) + "=" + view, false, false},
		{"another launch's token", "X-Svc-Token", token(*other.ViewUrl), false, false},
		{"the organization key", "X-API-Key", cloudtest.Key, false, false},
	} {
		var headers []string
		upgrade := http.Header{}
		if credential.header != "" {
			headers = []string{credential.header, credential.value, "Sec-Fetch-Site", "same-origin"}
			upgrade.Set(credential.header, credential.value)
			upgrade.Set("Sec-Fetch-Site", "same-origin")
		}
		for _, route := range []struct {
			method, path, body string
			status             int // if the credential is accepted
			view               bool
		}{
			{"GET", "/", "", 200, false},
			{"GET", "/view", "", 200, true},
			{"GET", "/devtools", "", 303, false},
			{"GET", "/json/version", "", 200, false},
			{"GET", "/json/list", "", 200, false},
			{"GET", "/json/list/", "", 200, false},
			{"PUT", "/json/new", "", 200, false},
			{"GET", "/json/protocol", "", 200, false},
			{"GET", "/screenshot?format=jpeg&width=320", "", 200, false},
			{"GET", "/pdf", "", 200, false},
			{"POST", "/navigate", `{"url":"about:blank"}`, 200, false},
			{"POST", "/view-ticket", "", 200, false},
			{"POST", "/recording", `{"record":["events"]}`, 400, false}, // nothing outlives a launch
			{"DELETE", "/recording", "", 409, false},
		} {
			want := 404
			if credential.control || credential.view && route.view {
				want = route.status
			}
			status, text := r.call(contracttest.AllowUndocumentedRoute(t.Context()), t, route.method, base+route.path, route.body, headers...)
			if status != want || want == 404 && string(text) != "unknown browser" {
				t.Errorf("%s %s with %s: %d %.100s, want %d", route.method, route.path, credential.name, status, text, want)
			}
		}
		for path, opens := range map[string]struct {
			open bool
			shut int
		}{
			"/devtools/browser/" + guid: {credential.control, 404},
			"/vnc":                      {credential.view, 403},
		} {
			status, body := r.upgrade(t, base+path, upgrade)
			if opens.open && status != 101 || !opens.open && status != opens.shut || status == 403 && body != "forbidden" {
				t.Errorf("%s with %s: %d %s", path, credential.name, status, body)
			}
		}
	}
	if status, _ := r.upgrade(t, base+"/vnc?t="+view, nil); status != 101 {
		t.Errorf("the stream with the ticket in the URL: got %d", status)
	}
	for path, method := range map[string]string{
		"/json/version": "GET", "/json/version/": "GET", "/json/list/": "GET", "/json/protocol": "HEAD", "/json/new": "PUT",
		"/screenshot": "GET", "/pdf": "GET", "/view-ticket": "POST",
	} {
		for opener, want := range map[string]int{control: 200, token(*other.ViewUrl): 404, view: 404} {
			if status, text := r.call(contracttest.AllowUndocumentedRoute(t.Context()), t, method, base+path+"?ct="+opener, ""); status != want {
				t.Errorf("%s %s with a token in the URL: got %d %.100s, want %d", method, path, status, text, want)
			}
		}
	}
	for _, method := range []string{"GET", "HEAD"} {
		if status, text := r.call(contracttest.AllowUndocumentedRoute(t.Context()), t, method, base, ""); status != 307 {
			t.Errorf("%s without the slash: %d %s", method, status, text)
		}
	}
	status, text := r.call(t.Context(), t, "POST", base+"/close?ct="+control, "")
	if status != 200 || !strings.Contains(string(text), id) {
		t.Errorf("close: %d %s", status, text)
	}
	if ended := r.session(t, "GET", "/sessions/"+s.Id.String(), ""); ended.Status != "killed" {
		t.Errorf("after close: %+v", ended)
	}
}

func TestLaunchSocket_LaunchesAndDrives(t *testing.T) {
	fake := cloudtest.New(t)
	r := startTestWorker(t, fake, func(c *app.Config) { c.OrganizationKey = "" })
	profile := fake.Profile(r.version)
	env := fmt.Sprintf(`{"SVC_KEY":%q,"profileId":%q,"browser":{"headless":true}}`, cloudtest.Key, profile)
	for name, tc := range map[string]struct {
		path   string
		header http.Header
		status int
	}{
		"key in the header":  {"/launch?profileId=" + profile.String(), http.Header{"X-Api-Key": {cloudtest.Key}}, 101},
		"key as bearer":      {"/launch?profileId=" + profile.String(), http.Header{"Authorization": {"Bearer " + cloudtest.Key}}, 101},
		"key in env, base64": {"/launch?env=" + base64.RawURLEncoding.EncodeToString([]byte(env)), nil, 101},
		"no key":             {"/launch?profileId=" + profile.String(), nil, 401},
		"a wrong key":        {"/launch?profileId=" + profile.String(), http.Header{"X-Api-Key": {"svc_wrong"}}, 401},
		"the worker key":     {"/launch?profileId=" + profile.String(), http.Header{"X-Api-Key": {workerKey}}, 401},
		"token alone":        {"/launch?token=" + cloudtest.Key, nil, 101},
		"every parameter": {fmt.Sprintf("/launch?token=%s&browserVersion=%d&headless=true&timeout=60000&proxy=http://me:secret@%s",
			cloudtest.Key, r.version, startProxy(t, "me:secret")), nil, 101},
		"a wrong token":      {"/launch?token=svc_wrong", nil, 401},
		"an unknown setting": {"/launch?env=" + base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(env, "headless", "headles", 1))), nil, 400},
	} {
		if status, body := r.upgrade(t, tc.path, tc.header); status != tc.status || status != 101 && !strings.Contains(body, `"success":false`) {
			t.Errorf("%s: %d %s, want %d", name, status, body, tc.status)
		}
	}
	for query, field := range map[string]string{ // errors name the parameter, not the field that it sets
		"proxy=http://me:secret@127.0.0.1:9": "proxy", "proxy=ftp://me:secret@127.0.0.1:9": "proxy", "profile=x": "profile", "profileId=x": "profileId",
		"browserVersion=0": "browserVersion", "waitSeconds=601": "waitSeconds", "browserVersion=91": "browserVersion",
	} {
		status, body := r.upgrade(t, "/launch?token="+cloudtest.Key+"&"+query, nil)
		got := decode[failure](t, []byte(body))
		if status != 400 || len(got.Error.Details) != 1 || got.Error.Details[0].Field != field || strings.Contains(body, "secret") {
			t.Errorf("%s: %d %s, want one detail about %s", query, status, body, field)
		}
	}
	fake.Await(t, 0, 0) // each browser ended with its socket
}

// startProxy starts a proxy that refuses all destinations to callers with these
// credentials, and returns its address.
func startProxy(t *testing.T, userinfo string) string {
	t.Helper()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusProxyAuthRequired
		if r.Header.Get("Proxy-Authorization") == "Basic "+base64.StdEncoding.EncodeToString([]byte(userinfo)) {
			status = http.StatusBadGateway
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(proxy.Close)
	return proxy.Listener.Addr().String()
}

func TestLaunchSocket_PlainRequestIsExplained(t *testing.T) {
	fake := cloudtest.New(t)
	r := startTestWorker(t, fake)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	address := "ws" + strings.TrimPrefix(r.url, "http") + "/launch?profileId=" + fake.Profile(r.version).String()
	conn, err := ws.Dial(ctx, address, http.Header{"X-Api-Key": {cloudtest.Key}}, ws.Options{ReadLimit: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	ask := func(request string, into any) {
		t.Helper()
		if err := conn.Write(ctx, ws.Text, []byte(request)); err != nil {
			t.Fatal(err)
		}
		_, answer, err := conn.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(answer, into); err != nil {
			t.Fatalf("%s: %v", answer, err)
		}
	}
	var info struct {
		ID     int
		Result struct{ ControlToken, SessionID, LaunchID string }
	}
	ask(`{"id":1,"method":"Svc.getSessionInfo"}`, &info)
	r.secrets = append(r.secrets, info.Result.ControlToken)
	var version struct{ Result struct{ Product string } }
	ask(`{"id":2,"method":"Browser.getVersion"}`, &version)
	var unknown struct{ Error struct{ Code int } }
	ask(`{"id":3,"method":"Svc.nonsense"}`, &unknown)
	if info.ID != 1 || info.Result.ControlToken == "" || !strings.Contains(version.Result.Product, "Chrome") || unknown.Error.Code != -32601 {
		t.Errorf("info %+v, version %+v, unknown %+v", info, version, unknown)
	}
	status, _ := r.call(contracttest.AllowUndocumentedRoute(t.Context()), t, "GET", "/browsers/"+info.Result.LaunchID+"/json/version", "", "X-Svc-Token", info.Result.ControlToken)
	if status != 200 {
		t.Errorf("the control token: got %d", status)
	}
}

func TestLaunch_FullMachineRefusesWithoutAskingCloud(t *testing.T) {
	fake := cloudtest.New(t)
	r := startTestWorker(t, fake, func(c *app.Config) { c.MaxSessions = 1 })
	r.launch(t)
	requests := len(fake.Calls(cloudtest.Authorize))
	status, text := r.call(t.Context(), t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q}`, fake.Profile(r.version)), "X-API-Key", workerKey)
	if got := decode[failure](t, text); status != 503 || got.Error.Code != "EXTERNAL_SERVICE_ERROR" || len(got.Error.Details) != 1 || got.Error.Details[0].Field != "maxSessions" {
		t.Errorf("%d %s", status, text)
	}
	if len(fake.Calls(cloudtest.Authorize)) != requests {
		t.Error("the cloud got a request")
	}
}

func TestDrain_RunningSessionsContinue(t *testing.T) {
	fake := cloudtest.New(t)
	r := startTestWorker(t, fake, func(c *app.Config) { c.DrainTimeout = time.Minute })
	s := r.launch(t)
	r.cancel()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		_, text := r.call(t.Context(), t, "GET", "/health", "")
		if decode[workerapi.WorkerHealthResponse](t, text).Data.Status == workerapi.WorkerHealthStatusDraining {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the worker did not start to drain")
		}
	}
	_, text := r.call(t.Context(), t, "DELETE", "/fleet/drain", "", "X-API-Key", workerKey)
	if !decode[workerapi.FleetLiveResponse](t, text).Data.Draining {
		t.Errorf("a worker that shuts down resumed service: %s", text)
	}
	if status, _ := r.call(t.Context(), t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q}`, fake.Profile(r.version)), "X-API-Key", workerKey); status != 503 {
		t.Errorf("a launch while draining: %d", status)
	}
	if err := r.dial(t, *s.WebSocketDebuggerUrl); err != nil {
		t.Errorf("the running browser: %v", err)
	}
	r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
	select {
	case err := <-r.stopped:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the worker did not end after its last session")
	}
	r.cancel = nil
}

func TestLaunch_InvalidProxyIsFieldErrorAndTakesNoSlot(t *testing.T) {
	fake := cloudtest.New(t)
	r := startTestWorker(t, fake)
	for server, message := range map[string]string{
		"http://127.0.0.1:9":          "cannot be reached",
		"http://169.254.169.254:3128": "is denied on this worker",
	} {
		body := fmt.Sprintf(`{"profileId":%q,"proxyOverride":{"server":%q}}`, fake.Profile(r.version), server)
		status, text := r.call(t.Context(), t, "POST", "/sessions/profile", body, "X-API-Key", workerKey)
		got := decode[failure](t, text)
		if status != 400 || got.Error.Code != "VALIDATION_ERROR" || len(got.Error.Details) != 1 ||
			got.Error.Details[0].Field != "proxyOverride.server" || got.Error.Details[0].Message != message {
			t.Errorf("%s: %d %s", server, status, text)
		}
	}
	if len(fake.Calls(cloudtest.Authorize)) > 0 {
		t.Error("the cloud got a request")
	}
}
