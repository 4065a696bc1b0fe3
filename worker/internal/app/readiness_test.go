package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// notReady returns the reasons of /readyz; empty if the worker is ready.
func (r *testWorker) notReady(t *testing.T) (reasons []string) {
	t.Helper()
	status, text := r.call(t.Context(), t, "GET", "/readyz", "")
	for _, d := range decode[failure](t, text).Error.Details {
		reasons = append(reasons, fmt.Sprint(d.Constraint["reason"]))
	}
	if (status == http.StatusOK) != (len(reasons) == 0) {
		t.Errorf("/readyz: got %d %s", status, text)
	}
	return reasons
}

// awaitReadiness waits, without launching, until /readyz has this first reason (""
// means ready), then checks that the other routes agree.
func (r *testWorker) awaitReadiness(t *testing.T, want string, state workerapi.LicenseState) {
	t.Helper()
	first := func() string {
		if reasons := r.notReady(t); len(reasons) > 0 {
			return reasons[0]
		}
		return ""
	}
	for deadline := time.Now().Add(20 * time.Second); first() != want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("/readyz: got reasons %v, want %q first", r.notReady(t), want)
		}
	}
	_, text := r.call(t.Context(), t, "GET", "/fleet/live", "", "X-API-Key", workerKey)
	live := decode[workerapi.FleetLiveResponse](t, text).Data
	if live.IsAvailable != (want == "") || want != "" && (live.Reason == nil || string(*live.Reason) != want) {
		t.Errorf("/fleet/live: got %s, want reason %q", text, want)
	}
	_, text = r.call(t.Context(), t, "GET", "/fleet/status", "", "X-API-Key", workerKey)
	if got := decode[workerapi.FleetStatusResponse](t, text).Data; got.License.State != state || got.Capacity.IsAvailable != live.IsAvailable {
		t.Errorf("/fleet/status: got %+v %+v, want %s", got.License, got.Capacity, state)
	}
	_, text = r.call(t.Context(), t, "GET", "/health", "")
	if got := decode[workerapi.WorkerHealthResponse](t, text).Data; got.License != state {
		t.Errorf("/health: got %s, want %s", got.License, state)
	}
	if status, _ := r.call(t.Context(), t, "GET", "/livez", ""); status != http.StatusOK {
		t.Errorf("/livez: got %d", status)
	}
}

func TestReadiness_MatchesLaunchOutcome(t *testing.T) {
	fake := cloudtest.New(t)
	fake.HeartbeatEvery(time.Second)
	r := startTestWorker(t, fake, func(c *app.Config) { c.MaxSessions = 1 })
	r.awaitReadiness(t, "", workerapi.LicenseStateOk)
	fake.Revoke(true)
	r.awaitReadiness(t, "key_refused", workerapi.LicenseStateKeyRefused)
	fake.Revoke(false)
	r.awaitReadiness(t, "", workerapi.LicenseStateOk)
	fake.Down(true)
	r.awaitReadiness(t, "cloud_unreachable", workerapi.LicenseStateUnreachable)
	fake.Down(false)
	r.awaitReadiness(t, "", workerapi.LicenseStateOk)
	fake.SetContractVersion("2.0.0")
	r.awaitReadiness(t, "cloud_incompatible", workerapi.LicenseStateIncompatible)
	fake.SetContractVersion("1.0.0")
	r.awaitReadiness(t, "", workerapi.LicenseStateOk)
	if status, _ := r.call(t.Context(), t, "POST", "/fleet/drain", "", "X-API-Key", workerKey); status != http.StatusOK {
		t.Fatal(status)
	}
	r.awaitReadiness(t, "draining", workerapi.LicenseStateOk)
	r.call(t.Context(), t, "DELETE", "/fleet/drain", "", "X-API-Key", workerKey)
	s := r.launch(t)
	r.awaitReadiness(t, "max_sessions", workerapi.LicenseStateOk)
	r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
	r.awaitReadiness(t, "", workerapi.LicenseStateOk)
}

func TestReadiness_LostWhenCloudDoesNotAnswerLaunch(t *testing.T) {
	fake := cloudtest.New(t)
	fake.HeartbeatEvery(time.Hour)
	r := startTestWorker(t, fake)
	r.awaitReadiness(t, "", workerapi.LicenseStateOk)
	before := fake.CallCount(cloudtest.Heartbeat)
	fake.Script(cloudtest.Authorize, cloudtest.Reset)
	status, _ := r.call(t.Context(), t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q}`, fake.Profile(r.version)), "X-API-Key", workerKey)
	if status != http.StatusServiceUnavailable {
		t.Errorf("answered %d", status)
	}
	r.awaitReadiness(t, "", workerapi.LicenseStateOk) // the worker checks the cloud again at once
	if fake.CallCount(cloudtest.Heartbeat) <= before {
		t.Error("the cloud got no authorize request")
	}
}

func TestReadiness_WithoutAKey(t *testing.T) {
	for key, want := range map[string]string{"": "no_key", "none": ""} {
		t.Run("SVC_KEY="+key, func(t *testing.T) {
			r := startTestWorker(t, cloudtest.New(t), func(c *app.Config) { c.OrganizationKey = key })
			r.awaitReadiness(t, want, workerapi.LicenseStateNoKey)
		})
	}
}

func TestReadiness_WithoutBrowser(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), func(c *app.Config) { c.ChromiumPath = "/nope" })
	r.awaitReadiness(t, "no_browser", workerapi.LicenseStateOk)
	if _, text := r.call(t.Context(), t, "GET", "/readyz", ""); !strings.Contains(string(text), "CHROMIUM_PATH") || !strings.Contains(string(text), "package chromium") {
		t.Errorf("the answer does not name the variable and the package: %s", text)
	}
	status, text := r.call(t.Context(), t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q}`, r.cloud.Profile(r.version)), "X-API-Key", workerKey)
	if got := decode[failure](t, text); status != http.StatusServiceUnavailable || !strings.Contains(got.Error.Message, "CHROMIUM_PATH") {
		t.Errorf("a launch answers %d %s", status, text)
	}
}

func TestReadiness_DropsBeforePortCloses(t *testing.T) {
	const delay = 3 * time.Second
	r := startTestWorker(t, cloudtest.New(t), func(c *app.Config) { c.ShutdownDelay, c.DrainTimeout = delay, time.Minute })
	r.awaitReadiness(t, "", workerapi.LicenseStateOk)
	began := time.Now()
	r.cancel()
	r.awaitReadiness(t, "draining", workerapi.LicenseStateOk)
	s := r.launch(t) // launches still work until load balancers notice
	if err := r.dial(t, *s.WebSocketDebuggerUrl); err != nil {
		t.Errorf("the browser launched during the delay: %v", err)
	}
	r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
	if err := <-r.stopped; err != nil || time.Since(began) < delay {
		t.Errorf("the worker ended after %v: %v", time.Since(began), err)
	}
	r.stopped <- nil // for stop
	if answer, err := http.Get(r.url + "/livez"); err == nil {
		answer.Body.Close()
		t.Errorf("the worker still answers with %d", answer.StatusCode)
	}
}
