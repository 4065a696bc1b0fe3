package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
)

// docsTest is a test environment behind front proxies, as behind a load balancer.
// The worker's API is below a path prefix. A browser of the worker opens the
// documentation pages of both APIs. It uses the front proxies because browsers
// cannot reach the cloud directly.
type docsTest struct {
	testEnv
	cloudBase, workerBase string
	session               workerapi.BrowserSession
}

func newDocsTest(t *testing.T) docsTest {
	t.Helper()
	c := startCloud(t, "DATABASE_URL="+dbtest.NewDSN(t))
	e := docsTest{testEnv: testEnv{account: c.signUp(t), cloud: c}}
	cloudTarget, workerTarget := new(atomic.Pointer[url.URL]), new(atomic.Pointer[url.URL])
	e.cloudBase, e.workerBase = startFrontProxy(t, "", cloudTarget), startFrontProxy(t, "/w/w1", workerTarget)
	e.worker = startWorker(t, c, e.key, "PUBLIC_URL="+strings.TrimSuffix(e.workerBase, "/w/w1"), "WORKER_ID=w1")
	for target, address := range map[*atomic.Pointer[url.URL]]string{cloudTarget: c.url, workerTarget: e.worker.url} {
		parsed, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		target.Store(parsed)
	}
	e.session = e.worker.launch(t, e.newLaunchRequest(t, true))
	return e
}

// startFrontProxy starts a proxy that forwards requests below the prefix, and
// returns its URL with the prefix.
func startFrontProxy(t *testing.T, prefix string, target *atomic.Pointer[url.URL]) string {
	t.Helper()
	server := httptest.NewServer(http.StripPrefix(prefix, &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target.Load())
		r.Out.Host = r.In.Host
	}}))
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "127.0.0.1", "localhost", 1) + prefix
}

// visitTimeout limits a visit with all its steps.
const visitTimeout = 3 * time.Minute

// visitStep is one action of a user on the page: a method of clients/explorer.mjs
// and its arguments.
type visitStep []any

// visitResult is the result of a visit.
type visitResult struct {
	Results              []json.RawMessage // one for each step
	Requests, PageErrors []string
}

// visit runs the steps on the page below base. It fails the test if the page sends
// a request outside of base, violates its content security policy, logs an error or
// puts a secret into a URL.
func (e docsTest) visit(t *testing.T, base string, settings map[string]any, steps ...visitStep) visitResult {
	t.Helper()
	input := map[string]any{"endpoint": *e.session.WebSocketDebuggerUrl, "url": base + "/docs", "steps": steps}
	for name, value := range settings {
		input[name] = value
	}
	if dir := os.Getenv("SCREENSHOT_DIR"); dir != "" {
		absolute, err := filepath.Abs(dir)
		if err != nil {
			t.Fatal(err)
		}
		input["screenshotDir"] = absolute
	}
	var visit visitResult
	ctx, cancel := context.WithTimeout(t.Context(), visitTimeout)
	defer cancel()
	if err := runClient(exec.CommandContext(ctx, "node", "clients/docs.mjs"), input, &visit); err != nil {
		t.Fatal(err)
	}
	if len(visit.Results) != len(steps) {
		t.Fatalf("%d results of %d steps", len(visit.Results), len(steps))
	}
	for _, pageError := range visit.PageErrors {
		t.Errorf("page error: %s", pageError)
	}
	for _, address := range visit.Requests {
		if address != "about:blank" && !strings.HasPrefix(address, base+"/") && !strings.HasPrefix(address, "data:image/") {
			t.Errorf("the page requested %s", address)
		}
		for _, secret := range []string{e.key, e.token, e.password, e.worker.key} {
			if strings.Contains(address, secret) {
				t.Errorf("the URL %s contains a secret", address)
			}
		}
	}
	return visit
}

// stepResult decodes the result of a step.
func stepResult[T any](t *testing.T, visit visitResult, step int) T {
	t.Helper()
	var result T
	if err := json.Unmarshal(visit.Results[step], &result); err != nil {
		t.Fatalf("result %d is %s: %v", step, visit.Results[step], err)
	}
	return result
}

// displayedResponse is a response shown on the page.
type displayedResponse struct {
	Status int
	Body   struct {
		Success bool
		Data    json.RawMessage
		Error   struct{ Code string }
	}
	Curl, StatusText string
}

// responseData decodes the data of the step's response. It fails the test unless
// the response has the status.
func responseData[T any](t *testing.T, visit visitResult, step, status int) (data T) {
	t.Helper()
	answer := stepResult[displayedResponse](t, visit, step)
	if answer.Status != status || answer.Body.Success != (status < 300) || answer.StatusText != fmt.Sprintf("The response has status %d.", status) {
		t.Fatalf("step %d shows status %d, error %+v and text %q, want %d", step, answer.Status, answer.Body.Error, answer.StatusText, status)
	}
	if err := json.Unmarshal(answer.Body.Data, &data); err != nil {
		t.Fatalf("step %d: %v", step, err)
	}
	return data
}

// assertAccessible fails the test for serious and critical findings of axe.
func assertAccessible(t *testing.T, visit visitResult, steps ...int) {
	t.Helper()
	for _, i := range steps {
		for _, finding := range stepResult[[]string](t, visit, i) {
			if strings.HasPrefix(finding, "serious ") || strings.HasPrefix(finding, "critical ") {
				t.Errorf("step %d: %s", i, finding)
			} else {
				t.Logf("step %d: %s", i, finding)
			}
		}
	}
}

func TestDocs_ExplorersWork(t *testing.T) {
	t.Parallel()
	e := newDocsTest(t)
	for name, test := range map[string]func(*testing.T){
		"documents":         e.testDocuments,
		"cloud, with a key": e.testCloudKey, "cloud, signed in": e.testCloudCookie, "worker": e.testWorker,
		"links": e.testLinks, "stored credentials": e.testStoredCredentials,
	} {
		t.Run(name, test)
	}
	if !testenv.Full() {
		return
	}
	for name, test := range map[string]func(*testing.T){"color schemes": e.testColorSchemes, "small screen": e.testSmallScreen} {
		t.Run(name, test)
	}
}

type usageCounts struct{ Current, Limit *int }

func (e docsTest) testCloudKey(t *testing.T) {
	visit := e.visit(t, e.cloudBase, map[string]any{"scheme": "light"},
		visitStep{"visit"},
		visitStep{"timing"},
		visitStep{"credentials"},
		visitStep{"enterCredentials", map[string]string{"organizationKey": e.key}},
		visitStep{"call", "#/License/listLicenseSessions"},
		visitStep{"findings"},
		visitStep{"screenshot", "docs-cloud-light"},
		visitStep{"call", "#/Profiles/listProfiles"}, // a key has no access to it
		visitStep{"visit"},
		visitStep{"timing"},
	)
	if offered := stepResult[struct{ Offered []string }](t, visit, 2).Offered; !slices.Equal(offered, []string{"dashboardBearer", "organizationKey", "metricsToken"}) {
		t.Errorf("the cloud's page lists %v", offered)
	}
	if c := responseData[usageCounts](t, visit, 4, http.StatusOK); c.Current == nil || *c.Current != 1 || c.Limit == nil {
		t.Errorf("charged %+v, want the browser of this test", c)
	}
	assertAccessible(t, visit, 5)
	if refused := stepResult[displayedResponse](t, visit, 7); refused.Status != http.StatusUnauthorized || refused.Body.Error.Code != "AUTHENTICATION_ERROR" {
		t.Errorf("profiles with a key: %+v", refused)
	} else if strings.Contains(refused.Curl, e.key) {
		t.Error("the key is sent to an operation that does not accept it")
	}
	type timing struct{ Usable, Bytes float64 }
	first, again := stepResult[timing](t, visit, 1), stepResult[timing](t, visit, 9)
	t.Logf("first visit: %.0f kB, usable after %.0f ms; again: %.0f kB, %.0f ms", first.Bytes/1e3, first.Usable, again.Bytes/1e3, again.Usable)
	if first.Bytes < 100e3 || first.Bytes > 650e3 || again.Bytes > 20e3 {
		t.Errorf("the first visit transferred %.0f bytes, the next one %.0f", first.Bytes, again.Bytes)
	}
}

// testCloudCookie signs in on the page, and then calls operations with the cookie.
func (e docsTest) testCloudCookie(t *testing.T) {
	list := visitStep{"call", "#/Profiles/listProfiles", map[string]any{"fields": map[string]string{"limit": "1"}}}
	visit := e.visit(t, e.cloudBase, map[string]any{"scheme": "dark"},
		visitStep{"visit"},
		list,
		visitStep{"call", "#/Authentication/signIn", map[string]any{"body": map[string]string{"email": e.email, "password": e.password}}},
		list,
		visitStep{"findings", !testenv.Full()},
		visitStep{"screenshot", "docs-cloud-dark"},
		visitStep{"call", "#/Authentication/signOut"},
		list,
		visitStep{"enterCredentials", map[string]string{"dashboardBearer": e.token}},
		list,
	)
	for _, step := range []int{1, 7} {
		if status := stepResult[displayedResponse](t, visit, step).Status; status != http.StatusUnauthorized {
			t.Errorf("signed out, step %d shows %d", step, status)
		}
	}
	type profiles struct{ Items []struct{ Name string } }
	for step, bearer := range map[int]bool{3: false, 9: true} {
		if p := responseData[profiles](t, visit, step, http.StatusOK); len(p.Items) != 1 || p.Items[0].Name != "A profile" {
			t.Errorf("step %d shows the profiles %+v", step, p)
		}
		if sent := strings.Contains(stepResult[displayedResponse](t, visit, step).Curl, "Authorization: Bearer "+e.token); sent != bearer {
			t.Errorf("step %d sends the token as Bearer: %t", step, sent)
		}
	}
	assertAccessible(t, visit, 4)
}

// testWorker launches and ends a browser on the page.
// assertQuickStart fails the test unless the command lines of the worker's page contain the
// key and launch, list and end a browser if the key is valid.
func (e docsTest) assertQuickStart(t *testing.T, commands []string, key string) {
	t.Helper()
	if len(commands) != 3 || !strings.Contains(commands[2], "/sessions/SESSION_ID'") {
		t.Fatalf("the quick start is %q", commands)
	}
	session := "SESSION_ID"
	for i, command := range commands {
		if !strings.Contains(command, "-H 'X-API-Key: "+key+"'") {
			t.Errorf("the command line has not the key %s: %s", key, command)
		}
		if key != e.worker.key {
			continue
		}
		text := runCurl(t, strings.Replace(command, "SESSION_ID", session, 1))
		var answer struct {
			Success bool
			Data    struct{ ID string }
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil || !answer.Success {
			t.Errorf("%s: %s", command, text)
		}
		if i == 0 {
			session = answer.Data.ID
		}
	}
}

// runCurl sends the request of a command line of curl, whose arguments the shell separates,
// and returns the body of the response.
func runCurl(t *testing.T, command string) string {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), "sh", "-c", `curl() { printf '%s\n' "$@"; }; `+command).Output()
	if err != nil {
		t.Fatal(err)
	}
	arguments := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(arguments); i++ {
		value := func() string { i++; return arguments[i] }
		switch argument := arguments[i]; argument {
		case "-X":
			r.Method = value()
		case "-H":
			name, text, _ := strings.Cut(value(), ": ")
			r.Header.Set(name, text)
		case "-d":
			r.Body = io.NopCloser(strings.NewReader(value()))
		default:
			if r.URL, err = url.Parse(argument); err != nil {
				t.Fatal(err)
			}
		}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func (e docsTest) testWorker(t *testing.T) {
	body := map[string]any{
		"spec": map[string]any{"browserVersion": e.worker.newestVersion(t)}, "browser": map[string]any{"headless": true},
	}
	give := visitStep{"enterCredentials", map[string]string{"workerKey": e.worker.key}}
	visit := e.visit(t, e.workerBase, map[string]any{"scheme": "light"},
		visitStep{"visit"}, visitStep{"credentials"}, visitStep{"quickStart"}, visitStep{"needs", "#/Sessions/launchProfile"}, give,
		visitStep{"quickStart"}, visitStep{"needs", "#/Sessions/launchProfile"},
		visitStep{"call", "#/Sessions/listBrowserSessions"},
		visitStep{"call", "#/Sessions/launchProfile", map[string]any{"body": body}},
		visitStep{"findings", !testenv.Full()},
		visitStep{"screenshot", "docs-worker-light"},
	)
	fields := stepResult[struct{ Offered, Shown []string }](t, visit, 1)
	if !slices.Contains(fields.Offered, "controlToken") || slices.Contains(fields.Offered, "controlQuery") || !slices.Equal(fields.Shown, []string{"workerKey"}) {
		t.Errorf("the worker's page has the fields %v and shows %v", fields.Offered, fields.Shown)
	}
	e.assertQuickStart(t, stepResult[[]string](t, visit, 2), "YOUR_WORKER_KEY")
	e.assertQuickStart(t, stepResult[[]string](t, visit, 5), e.worker.key)
	if got, want := stepResult[string](t, visit, 3), "Requires a credential: Enter worker key. Not needed if this browser is signed in."; got != want {
		t.Errorf("without a credential, the page says %q beside Execute, want %q", got, want)
	}
	if got := stepResult[string](t, visit, 6); got != "" {
		t.Errorf("with the worker key, the page says %q beside Execute", got)
	}
	type sessions struct{ Items []struct{ ID, Status string } }
	if s := responseData[sessions](t, visit, 7, http.StatusOK); len(s.Items) == 0 || s.Items[0].Status != "running" {
		t.Errorf("sessions %+v", s)
	}
	type launched struct{ ID, LaunchID, Status, WebSocketDebuggerURL string }
	session := responseData[launched](t, visit, 8, http.StatusCreated)
	if session.Status != "running" || session.WebSocketDebuggerURL == "" {
		t.Fatalf("launched %+v", session)
	}
	assertAccessible(t, visit, 9)

	token := controlToken(t, session.WebSocketDebuggerURL)
	visit = e.visit(t, e.workerBase, map[string]any{"scheme": "dark"},
		visitStep{"visit"},
		visitStep{"enterCredentials", map[string]string{"controlToken": token}},
		visitStep{"call", "#/Browser/createViewTicket", map[string]any{"fields": map[string]string{"launchId": session.LaunchID}, "body": map[string]any{"ttlSeconds": 60}}},
		give,
		visitStep{"call", "#/Sessions/killBrowserSession", map[string]any{"fields": map[string]string{"sessionId": session.ID}}},
		visitStep{"findings"},
		visitStep{"screenshot", "docs-worker-dark"},
	)
	if issued := responseData[struct{ LaunchID, ViewTicket string }](t, visit, 2, http.StatusOK); issued.LaunchID != session.LaunchID || issued.ViewTicket == "" {
		t.Errorf("with the control token, the response is %+v", issued)
	}
	if ended := responseData[launched](t, visit, 4, http.StatusOK); ended.ID != session.ID || ended.Status != "killed" {
		t.Errorf("ended %+v", ended)
	}
	assertAccessible(t, visit, 5)
}
