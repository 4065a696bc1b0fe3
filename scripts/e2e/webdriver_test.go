package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
)

// webDriverResult is the result of clients/webdriver.mjs.
type webDriverResult struct {
	visit
	Session                                   uuid.UUID
	Clicked, Uploaded, Logged, Product, Error string
}

// TestWebDriver_SeleniumOnAnotherMachine drives browsers with Selenium in a network
// namespace in which only the worker is reachable, behind the path of a load balancer.
func TestWebDriver_SeleniumOnAnotherMachine(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	a, port := c.signUp(t), freePort(t)
	host := namespaceHost + ":" + port
	env := testEnv{account: a, cloud: c, worker: startWorkerAt(t, port, c, a.key, completeBrowsers, "PUBLIC_URL=http://"+host, "WORKER_ID=worker-1", "WARM_POOL=1")}
	outside := namespace{buildGoClient(t), host, forwardSocket(t, env.worker.address)}
	profile, page := env.profile(t, cloudapi.CreateProfileRequest{BrowserVersion: env.worker.newestVersion(t)}), servePage(t)
	drive := func(t *testing.T, more map[string]any) (result webDriverResult, err error) {
		t.Helper()
		input := map[string]any{
			"endpoint": "http://user:" + a.key + "@" + host + "/w/worker-1/wd/hub", "url": page, "expression": "6 * 7",
			"capabilities": map[string]any{"webSocketUrl": true, "svc:options": map[string]any{"profileId": profile}},
		}
		for name, value := range more {
			input[name] = value
		}
		err = outside.run(t, input, &result, "node", "clients/webdriver.mjs")
		return result, err
	}
	for _, headless := range []bool{true, false} {
		result, err := drive(t, map[string]any{"everything": true, "capabilities": map[string]any{
			"webSocketUrl": true, "svc:options": map[string]any{"profileId": profile, "browser": map[string]any{"headless": headless}},
		}})
		if err != nil {
			t.Fatal(withoutKey(err, a.key))
		}
		got, err := env.worker.api.GetBrowserSessionWithResponse(t.Context(), result.Session)
		requireAnswer(t, err, got, http.StatusOK)
		session := got.JSON200.Data
		if !result.matches(session) || result.Clicked != "2" || result.Uploaded != "a file.txt: content of the client" || result.Logged != "from the page" ||
			!strings.Contains(result.Product, result.Version) || session.Headless != headless {
			t.Errorf("headless %v: saw %+v", headless, result)
		}
		env.waitForSlots(t, 0, 10*time.Second)
		env.assertFeed(t, session, sharedapi.SessionStatusKilled, sharedapi.EndReasonKilled)
	}
	crashed, err := drive(t, map[string]any{"crash": true})
	if err != nil || crashed.Error != "NoSuchSessionError" {
		t.Errorf("a command after the end of the browser: %q, %v", crashed.Error, err)
	}
	env.waitForSlots(t, 0, 10*time.Second)
	for what, test := range map[string]struct {
		more    map[string]any
		message string
	}{
		"wrong key": {map[string]any{"endpoint": "http://user:svc_" + strings.Repeat("a", 32) + "@" + host + "/wd/hub"}, "SessionNotCreatedError"},
		"unknown profile": {map[string]any{"capabilities": map[string]any{"svc:options": map[string]any{"profileId": uuid.New()}}},
			"SessionNotCreatedError"},
		"another program": {map[string]any{"capabilities": map[string]any{"goog:chromeOptions": map[string]any{"binary": "/bin/sh"}}}, "goog:chromeOptions.binary"},
	} {
		_, err := drive(t, test.more)
		if err == nil || !strings.Contains(err.Error(), test.message) {
			t.Errorf("%s: %v, want %s", what, withoutKey(err, a.key), test.message)
		}
	}
	assertForeignPageRefused(t, env.worker)
	if left := browserProcesses(env.worker.launches); countProcesses(left, "chromedriver") > 0 {
		t.Errorf("chromedriver runs: %v", left)
	}
}

// assertForeignPageRefused sends the request that a page of another site could send.
func assertForeignPageRefused(t *testing.T, w *worker) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/wd/hub/session", strings.NewReader(`{"capabilities":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", "https://evil.example")
	r.URL.User = url.UserPassword("user", w.key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another origin: %d", answer.StatusCode)
	}
}

// withoutKey returns the text of an error without the key.
func withoutKey(err error, key string) string {
	if err == nil {
		return "no error"
	}
	return strings.ReplaceAll(err.Error(), key, "KEY")
}
