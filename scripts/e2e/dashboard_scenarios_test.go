package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/certs/certtest"
	"github.com/browser-svc/svc/shared/testenv"
)

// TestDashboard tests the dashboard and the console as their users do, in a browser of
// a worker.
func TestDashboard(t *testing.T) {
	t.Parallel()
	e := newDashboardTest(t)
	for _, scenario := range []struct {
		name string
		test func(*testing.T)
	}{
		{"first_launch", e.testFirstLaunch},
		{"members", e.testMembers},
		{"key_rotation", e.testKeyRotation},
		{"secrets", e.testSecrets},
		{"network_rules", e.testNetworkRules},
		{"webhooks", e.testWebhooks},
		{"profiles", e.testProfiles},
		{"profile_versions", e.testProfileVersions},
		{"tenants", e.testTenants},
		{"accessibility", e.testAccessibility},
		{"faults", e.testFaults},
		{"handover", e.testHandover},
		{"recording", e.testRecording},
		{"files", e.testFiles},
		{"dialogs", e.testDialogs},
	} {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			scenario.test(t)
		})
	}
}

// testFirstLaunch signs up, creates an organization and a key, connects a worker with
// the command of the page, creates a profile and launches it in the worker's console.
func (e dashboardTest) testFirstLaunch(t *testing.T) {
	hook, keys := startKeyHook(t)
	email, password := uuid.NewString()+"@example.com", uuid.NewString()
	wait := e.begin(t, e.base, "first-launch", map[string]any{
		"email": email, "password": password, "hook": hook, "version": e.worker.newestVersion(t),
	})
	var w *worker
	var console string
	if key := firstKey(keys, wait.ended); key != "" {
		w, console = e.startConsole(t, key)
	}
	var profile string
	decode(t, wait.result(t), &profile)
	user := map[string]any{"email": email, "password": password, "profileId": profile, "machine": "console"}
	var form struct {
		Address, Again, Command string
		Found                   []string
	}
	decode(t, e.run(t, "profile-launch", user), &form)
	reportFindings(t, form.Found)
	if want := console + "/#/launch?profileId=" + profile; form.Address != want || form.Again != want {
		t.Errorf("Launch leads to %q and %q, want %q", form.Address, form.Again, want)
	}
	if !strings.Contains(form.Command, "WORKER_URL="+console+"\n") {
		t.Errorf("the command does not name the URL of the machine: %s", form.Command)
	}
	var launched string
	decode(t, e.begin(t, console, "console-launch", map[string]any{"workerKey": w.key, "profileId": profile, "launch": form.Address}).result(t), &launched)
	user["session"] = launched
	var links struct{ View, Details, Address string }
	decode(t, e.run(t, "sees-session", user), &links)
	if page := console + "/#/sessions/" + launched; links.Details != page || links.View != page+"?open=view" || links.Address != console {
		t.Errorf("the links are %+v", links)
	}
	e.begin(t, console, "console-view", map[string]any{"workerKey": w.key, "view": links.View, "details": links.Details}).result(t)
}

// firstKey returns the key that the scenario sent; "" if the scenario ended before.
func firstKey(keys <-chan string, ended <-chan struct{}) string {
	select {
	case key := <-keys:
		return key
	case <-ended:
		return ""
	}
}

// startKeyHook starts a server to which a scenario sends the key that a page shows.
func startKeyHook(t *testing.T) (address string, keys <-chan string) {
	t.Helper()
	received := make(chan string, 1)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		key, _ := io.ReadAll(r.Body)
		received <- string(key)
	}))
	t.Cleanup(hook.Close)
	return hook.URL, received
}

// startConsole starts a worker behind a front proxy and returns the URL of its console.
func (e dashboardTest) startConsole(t *testing.T, key string) (*worker, string) {
	t.Helper()
	target := new(atomic.Pointer[url.URL])
	base := startFrontProxy(t, "/w/console", target)
	w := startWorker(t, e.cloud, key, "PUBLIC_URL="+strings.TrimSuffix(base, "/w/console"), "WORKER_ID=console")
	address, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	target.Store(address)
	return w, base
}

// decode decodes the result of a scenario.
func decode(t *testing.T, result json.RawMessage, into any) {
	t.Helper()
	if err := json.Unmarshal(result, into); err != nil {
		t.Fatalf("result %s: %v", result, err)
	}
}

// reportFindings fails the test with the findings of a scenario.
func reportFindings(t *testing.T, found []string) {
	t.Helper()
	for _, finding := range found {
		t.Error(finding)
	}
}

// testMembers invites a member, who accepts with a new account and sees no billing.
// Then the owner takes a role away while the other user's page is open.
func (e dashboardTest) testMembers(t *testing.T) {
	email, password := uuid.NewString()+"@example.com", uuid.NewString()
	var token string
	decode(t, e.run(t, "invite", map[string]any{"owner": e.credentials(), "email": email}), &token)
	e.run(t, "accept-invitation", map[string]any{"token": token, "email": email, "password": password, "owner": e.credentials()})
}

func (e dashboardTest) testKeyRotation(t *testing.T) {
	a := e.cloud.signUp(t)
	hook, keys := startKeyHook(t)
	w := startWorker(t, e.cloud, a.key)
	wait := e.begin(t, e.base, "rotate-key", map[string]any{"user": a.credentials(), "hook": hook})
	if key := firstKey(keys, wait.ended); key != "" {
		w.drain(t)
		w.environment = append(w.environment, "SVC_KEY="+key) // the last value counts
		w.start(t)
	}
	wait.result(t)
}

func (e dashboardTest) testSecrets(t *testing.T) {
	e.quiet.profile(t, cloudapi.CreateProfileRequest{Name: "Shop", BrowserVersion: e.worker.newestVersion(t)})
	wait := e.begin(t, e.base, "secrets", map[string]any{"user": e.quiet.credentials(), "password": "correct horse battery staple"})
	var found []string
	decode(t, wait.result(t), &found)
	reportFindings(t, found)
}

// testNetworkRules edits and tests the rules of an organization and of a profile.
func (e dashboardTest) testNetworkRules(t *testing.T) {
	a := e.cloud.signUp(t)
	profile := a.profile(t, cloudapi.CreateProfileRequest{Name: "Shop", BrowserVersion: e.worker.newestVersion(t)})
	var found []string
	decode(t, e.run(t, "network-rules", map[string]any{"user": a.credentials(), "profile": profile}), &found)
	reportFindings(t, found)
}

func (e dashboardTest) testProfiles(t *testing.T) {
	a := e.cloud.signUp(t)
	robot := certtest.NewAuthority(t, "Clients").Issue(t, "robot", time.Now().Add(time.Hour))
	e.run(t, "profiles", map[string]any{
		"user": a.credentials(), "version": e.worker.newestVersion(t),
		"certificate": certtest.PEM(robot.Leaf), "key": certtest.EncryptedKey(t, robot, "passphrase"), "passphrase": "passphrase",
	})
}

// testTenants opens every page as another tenant: nothing of the first may be visible.
func (e dashboardTest) testTenants(t *testing.T) {
	const secret = "Tenant A secret profile"
	profile := e.profile(t, cloudapi.CreateProfileRequest{Name: secret, BrowserVersion: e.worker.newestVersion(t)})
	b := e.cloud.signUp(t)
	e.run(t, "tenants", map[string]any{
		"user": b.credentials(), "owner": e.credentials(), "profile": profile, "session": e.session.Id,
		"secrets": []string{secret, e.email, e.keyID.String(), e.session.Id.String(), profile.String()},
	})
}

// screen is a color scheme and a width in pixels.
type screen [2]any

// testAccessibility opens every page in light and dark, on a phone and on a desktop. The quick run opens each page once,
// in light on a desktop or in dark on a phone.
func (e dashboardTest) testAccessibility(t *testing.T) {
	profile := e.profile(t, cloudapi.CreateProfileRequest{Name: "Accessible", BrowserVersion: e.worker.newestVersion(t)})
	screens := []screen{{"light", 1440}, {"dark", 390}}
	if testenv.Full() {
		screens = append(screens, screen{"dark", 1440}, screen{"light", 390})
	}
	var found []string
	decode(t, e.run(t, "accessibility", map[string]any{
		"user": e.credentials(), "profile": profile, "session": e.session.Id, "screens": screens, "alternate": !testenv.Full(),
	}), &found)
	reportFindings(t, found)
	w, console := e.startConsole(t, e.key)
	session := w.launch(t, e.newLaunchRequest(t, true))
	decode(t, e.begin(t, console, "console-accessibility", map[string]any{"workerKey": w.key, "session": session.Id}).result(t), &found)
	reportFindings(t, found)
}

// testHandover hands a browser of Playwright to a person, who finds it in the console. The
// event stream of the cloud has both handovers.
func (e dashboardTest) testHandover(t *testing.T) {
	w, console := e.startConsole(t, e.key)
	automated := w.launch(t, e.newLaunchRequest(t, true))
	events := e.openEvents(t)
	const reason = "Résoudre le <captcha> عربى"
	var result struct {
		Found    []string
		Outcomes []struct {
			Outcome, Title string
			Seconds        float64
		}
	}
	decode(t, e.begin(t, console, "handover", map[string]any{
		"workerKey": w.key, "automation": *automated.WebSocketDebuggerUrl, "reason": reason,
	}).result(t), &result)
	reportFindings(t, result.Found)
	for i, title := range []string{"clicked light", "clicked dark"} {
		if len(result.Outcomes) != 2 || result.Outcomes[i].Outcome != "done" || result.Outcomes[i].Seconds <= 0 || result.Outcomes[i].Title != title {
			t.Fatalf("got the outcomes %+v", result.Outcomes)
		}
	}
	for range 2 {
		if request := nextEvent(t, events, "handover.requested", automated.Id); request["reason"] != reason || request["until"] == nil {
			t.Errorf("got %v", request)
		}
		if done := nextEvent(t, events, "handover.done", automated.Id); done["outcome"] != "done" || done["profileId"] != automated.ProfileId.String() {
			t.Errorf("got %v", done)
		}
	}
}

// testRecording records a browser and plays the recording with a ticket.
func (e dashboardTest) testRecording(t *testing.T) {
	w, console := e.startConsole(t, e.key)
	request := e.newLaunchRequest(t, true)
	request.Browser.Record = &sharedapi.RecordedParts{"video", "events", "frames"}
	recorded, other := w.launch(t, request), w.launch(t, request)
	request.Browser.Record = nil
	running := w.launch(t, request)
	w.killSession(t, other.Id)
	var found []string
	decode(t, e.begin(t, console, "recording", map[string]any{
		"workerKey": w.key, "recorded": *recorded.WebSocketDebuggerUrl, "session": recorded.Id, "other": other.Id, "running": running.Id,
	}).result(t), &found)
	reportFindings(t, found)
}

// testDialogs opens the dialogs with the keyboard only.
func (e dashboardTest) testDialogs(t *testing.T) {
	own := testEnv{account: e.cloud.signUp(t), cloud: e.cloud}
	plan, err := own.dashboard.StartCheckoutWithResponse(t.Context(), cloudapi.CheckoutRequest{Plan: "team"}) // for members and add-ons
	requireAnswer(t, err, plan, http.StatusOK)
	w, console := e.startConsole(t, own.key)
	own.worker = w
	session := w.launch(t, own.newLaunchRequest(t, true))
	var found []string
	decode(t, e.run(t, "dialogs", map[string]any{
		"user": own.credentials(), "session": session.Id, "invited": uuid.NewString() + "@example.com",
	}), &found)
	reportFindings(t, found)
	decode(t, e.begin(t, console, "console-dialogs", map[string]any{"workerKey": w.key, "session": session.Id}).result(t), &found)
	reportFindings(t, found)
}

// testFiles launches browsers with an engine in the console and saves their files.
func (e dashboardTest) testFiles(t *testing.T) {
	w, console := e.startConsole(t, e.key)
	profile := e.profile(t, cloudapi.CreateProfileRequest{Name: "With files", BrowserVersion: e.worker.newestVersion(t)})
	var found []string
	decode(t, e.begin(t, console, "console-files", map[string]any{"workerKey": w.key, "profileId": profile}).result(t), &found)
	reportFindings(t, found)
}

// testFaults tests that nothing typed is lost when the service fails, when the session
// ends, and when another tab activates another organization.
func (e dashboardTest) testFaults(t *testing.T) {
	a := e.cloud.signUp(t)
	second, err := a.dashboard.CreateOrganizationWithResponse(t.Context(), cloudapi.CreateOrganizationRequest{Name: "Second organization"})
	requireAnswer(t, err, second, http.StatusForbidden) // the address is not verified yet
	token := e.cloud.mailedToken(t, a.email, "/account/verify-email")
	verified, err := e.cloud.api(t, "", "").VerifyEmailWithResponse(t.Context(), cloudapi.VerifyEmailRequest{Token: &token})
	requireAnswer(t, err, verified, http.StatusOK)
	second, err = a.dashboard.CreateOrganizationWithResponse(t.Context(), cloudapi.CreateOrganizationRequest{Name: "Second organization"})
	requireAnswer(t, err, second, http.StatusCreated)
	e.run(t, "faults", map[string]any{"user": a.credentials(), "version": e.worker.newestVersion(t)})
}
