package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// consoleToken creates a console session and returns the token of its cookie.
func (r *testWorker) consoleToken(t *testing.T) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), "POST", r.url+"/console/session", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-API-Key", workerKey)
	answer, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	cookie, err := http.ParseSetCookie(answer.Header.Get("Set-Cookie"))
	if err != nil || cookie.Name != "svc_console" || cookie.Path != "/" {
		t.Fatalf("got %d %q: %v", answer.StatusCode, answer.Header.Get("Set-Cookie"), err)
	}
	r.secrets = append(r.secrets, cookie.Value)
	return cookie.Value
}

// TestConsole_OperatesWorkerWithCookie runs the operations of the console with its
// cookie only, as a page of the worker sends them.
func TestConsole_OperatesWorkerWithCookie(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withCompleteBrowsers)
	origin := fmt.Sprintf("http://localhost:%d", r.config.Port) // the default of PUBLIC_URL
	page := []string{"Cookie", "svc_console=" + r.consoleToken(t), "Origin", origin, "Sec-Fetch-Site", "same-origin"}
	ask := func(method, path, body string, want int) []byte {
		t.Helper()
		status, text := r.call(t.Context(), t, method, path, body, page...)
		if status != want {
			t.Errorf("%s %s: got %d %.300s, want %d", method, path, status, text, want)
		}
		return text
	}
	for _, path := range []string{
		"/profiles", "/profiles/versions", fmt.Sprintf("/profiles/android-models?browserVersion=%d", r.version), "/fleet/status", "/fleet/live",
	} {
		ask("GET", path, "", 200)
	}
	ask("POST", "/fleet/drain", "", 200)
	ask("DELETE", "/fleet/drain", "", 200)
	profile := r.cloud.Profile(r.version)
	launched := decode[workerapi.BrowserSessionResponse](t, ask("POST", "/sessions/profile",
		fmt.Sprintf(`{"profileId":%q,"browser":{"headless":false,"metadata":{"team":"checkout"}}}`, profile), 201)).Data
	spec := decode[workerapi.BrowserSessionResponse](t, ask("POST", "/sessions/profile", fmt.Sprintf(`{"spec":{"browserVersion":%d}}`, r.version), 201)).Data
	for _, s := range []workerapi.BrowserSession{launched, spec} {
		r.secrets = append(r.secrets, token(*s.ViewUrl))
	}
	listed := decode[workerapi.BrowserSessionListResponse](t, ask("GET", "/sessions?status=running&sortBy=startedAt&sortOrder=asc", "", 200)).Data.Items
	if len(listed) != 2 || listed[0].Id != launched.Id || listed[0].ProfileId != profile || listed[0].ProfileName == "" || listed[0].Metadata["team"] != "checkout" {
		t.Errorf("listed %+v", listed)
	}
	base := "/browsers/" + launched.LaunchId.String()
	for _, accepts := range []string{"png", "jpeg"} {
		ask("GET", base+"/screenshot?width=320&format="+accepts, "", 200)
	}
	ask("GET", base+"/view", "", 200) // without a token in the URL
	if status, text := r.call(contracttest.AllowInvalidRequest(t.Context()), t, "GET", base+"/devtools", "", page...); status != 303 {
		t.Errorf("DevTools: got %d %s", status, text)
	}
	opened := decode[workerapi.BrowserSessionResponse](t, ask("GET", "/sessions/"+launched.Id.String(), "", 200)).Data
	if opened.ViewUrl == nil || opened.DevtoolsFrontendUrl == nil && launched.DevtoolsFrontendUrl != nil {
		t.Errorf("got no URLs: %+v", opened)
	}
	evil := []string{page[0], page[1], "Origin", "https://evil.example"}
	if status, _ := r.call(contracttest.AllowInvalidRequest(t.Context()), t, "DELETE", "/sessions/"+spec.Id.String(), "", evil...); status != 401 {
		t.Errorf("a page of another site ended a session: got %d", status)
	}
	if status, body := r.upgrade(t, base+"/vnc", http.Header{"Cookie": {page[1]}, "Origin": {"https://evil.example"}}); status != 403 || body != "forbidden" {
		t.Errorf("a page of another site opened a stream: got %d %s", status, body)
	}
	if status, _ := r.upgrade(t, base+"/vnc", http.Header{"Cookie": {page[1]}, "Origin": {origin}}); status != 101 {
		t.Errorf("a page of the worker opened no stream: got %d", status)
	}
	ask("DELETE", "/sessions/"+launched.Id.String(), "", 200)
	ask("DELETE", "/sessions/"+spec.Id.String(), "", 200)
	ask("DELETE", "/console/session", "", 200)
}

// TestConsole_RootIsNoOperation: the console is served at the root.
func TestConsole_RootIsNoOperation(t *testing.T) {
	if contracttest.Load(t, "worker.yaml").T().Paths.Value("/") != nil {
		t.Error("the API document has an operation at /")
	}
	var document struct{ Paths map[string]json.RawMessage }
	if err := json.Unmarshal(workerapi.Document, &document); err != nil {
		t.Fatal(err)
	}
	for path := range document.Paths {
		if strings.Trim(path, "/") == "" {
			t.Errorf("the API document has an operation at %q", path)
		}
	}
}
