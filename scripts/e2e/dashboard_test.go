package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

// dashboardTest is a cloud whose dashboard is opened in a browser of svc's own
// worker. The browser uses a front proxy, because browsers cannot reach the cloud
// directly.
type dashboardTest struct {
	testEnv
	base    string   // URL of the dashboard
	quiet   *account // of an organization without sessions; the cloud allows ten sign-ups
	request workerapi.LaunchProfileRequest
	session workerapi.BrowserSession // a running session, for the pages to show
}

func newDashboardTest(t *testing.T) dashboardTest {
	t.Helper()
	target := new(atomic.Pointer[url.URL])
	base := startFrontProxy(t, "", target)
	c := startCloud(t, "DATABASE_URL="+dbtest.NewDSN(t), "PUBLIC_URL="+base, "WEBHOOK_ALLOWED_NETWORKS=127.0.0.1/32")
	address, err := url.Parse(c.url)
	if err != nil {
		t.Fatal(err)
	}
	target.Store(address)
	e := dashboardTest{testEnv: testEnv{account: c.signUp(t), cloud: c}, base: base, quiet: c.signUp(t)}
	plan, err := e.dashboard.StartCheckoutWithResponse(t.Context(), cloudapi.CheckoutRequest{Plan: "team"}) // for members and profiles
	requireAnswer(t, err, plan, http.StatusOK)
	e.worker = startWorker(t, c, e.key)
	e.request = e.newLaunchRequest(t, true)
	e.session = e.worker.launch(t, e.request)
	return e
}

// scenarioTimeout limits a scenario.
const scenarioTimeout = 10 * time.Minute

// run runs a scenario of clients/dashboard and returns its result.
func (e dashboardTest) run(t *testing.T, name string, data map[string]any) json.RawMessage {
	t.Helper()
	return e.begin(t, e.base, name, data).result(t)
}

// scenario is a running scenario on the pages below base.
type scenario struct {
	name, base string
	secrets    []string
	end        func() // of its browser
	ended      chan struct{}
	err        error
	outcome    struct {
		Result               json.RawMessage
		Requests, PageErrors []string
	}
}

// begin begins a scenario on the pages below base, in a browser of its own: a client of
// a browser also handles the dialogs of the pages of other clients.
func (e dashboardTest) begin(t *testing.T, base, name string, data map[string]any) *scenario {
	t.Helper()
	session := e.worker.launch(t, e.request)
	input := map[string]any{"endpoint": *session.WebSocketDebuggerUrl, "base": base, "scenario": name, "data": data}
	if dir := os.Getenv("SCREENSHOT_DIR"); dir != "" {
		absolute, err := filepath.Abs(dir)
		if err != nil {
			t.Fatal(err)
		}
		input["screenshotDir"] = absolute
	}
	s := &scenario{name: name, base: base, end: func() { e.worker.killSession(t, session.Id) }, secrets: []string{e.key, e.token, e.password, e.worker.key}, ended: make(chan struct{})}
	ctx, cancel := context.WithTimeout(t.Context(), scenarioTimeout)
	go func() {
		defer cancel()
		defer close(s.ended)
		s.err = runClient(exec.CommandContext(ctx, "node", "clients/dashboard.mjs"), input, &s.outcome)
	}()
	return s
}

// result waits for the end of the scenario and returns its result. It fails the test
// if a page sends a request outside of base, violates its content security policy,
// throws an error or puts a secret into a URL.
func (s *scenario) result(t *testing.T) json.RawMessage {
	t.Helper()
	<-s.ended
	s.end()
	if s.err != nil {
		t.Fatalf("scenario %s: %v", s.name, s.err)
	}
	for _, pageError := range s.outcome.PageErrors {
		t.Errorf("page error: %s", pageError)
	}
	for _, address := range s.outcome.Requests {
		if !isOwnRequest(address, s.base) {
			t.Errorf("the page requested %s", address)
		}
		for _, secret := range s.secrets {
			if strings.Contains(address, secret) {
				t.Errorf("the URL %s contains a secret", address)
			}
		}
	}
	return s.outcome.Result
}

func isOwnRequest(address, base string) bool {
	return strings.HasPrefix(address, base+"/") || strings.HasPrefix(address, "blob:") || strings.HasPrefix(address, "data:image/")
}

// credentials returns what the sign-in page needs.
func (a *account) credentials() map[string]any {
	return map[string]any{"email": a.email, "password": a.password}
}

// mailedToken returns the token of the newest mail to an address whose text contains
// the path.
func (c *cloud) mailedToken(t *testing.T, email, path string) string {
	t.Helper()
	var token string
	eventually(t, 10*time.Second, "a mail to "+email+" is sent", func() error {
		mails, err := filepath.Glob(filepath.Join(c.dir, "data", "mail", "*.eml"))
		if err != nil {
			return err
		}
		for _, mail := range mails {
			text, err := os.ReadFile(mail)
			if err != nil {
				return err
			}
			_, after, found := strings.Cut(string(text), path)
			if match := mailedToken.FindStringSubmatch(after); found && match != nil && strings.Contains(string(text), "To: "+email) {
				token = match[1]
			}
		}
		if token == "" {
			return fmt.Errorf("none of %d mails is to %s", len(mails), email)
		}
		return nil
	})
	return token
}
