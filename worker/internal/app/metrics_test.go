package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/metrics"
	"github.com/browser-svc/svc/shared/metrics/metricstest"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

const metricsToken = "metrics-token-of-these-tests"

func withMetricsToken(c *app.Config) { c.Metrics.Token = metricsToken }

func (r *testWorker) scrape(t *testing.T) *metricstest.Scrape {
	t.Helper()
	status, text := r.call(t.Context(), t, "GET", "/metrics", "", "Authorization", "Bearer "+metricsToken)
	if status != http.StatusOK {
		t.Fatalf("got %d %s", status, text)
	}
	return metricstest.Parse(t, text)
}

// awaitMetric waits until a series has a value.
func (r *testWorker) awaitMetric(t *testing.T, want float64, name string, labels ...string) {
	t.Helper()
	testenv.Eventually(t, fmt.Sprintf("%s %q of %v", name, labels, want), func() bool {
		got, ok := r.scrape(t).Find(name, labels...)
		return ok && got == want
	})
}

func TestMetrics_FollowLaunchesAndSessions(t *testing.T) {
	fake := cloudtest.New(t)
	r := startTestWorker(t, fake, withMetricsToken, func(c *app.Config) {
		c.MaxSessions = 1
	})
	before := r.scrape(t)
	for _, series := range [][]string{
		{"svc_worker_launches_total", "result", "failed", "start", "cold"}, {"svc_worker_session_ends_total", "reason", "oom"},
		{"svc_worker_profile_saves_total", "result", "disk_full"}, {"svc_worker_launch_duration_seconds", "step", "total"},
		{"svc_worker_sessions"}, {"svc_worker_cdp_connections"}, {"svc_worker_egress_denied_total", "reason", "resolved"},
	} {
		if got := before.Value(t, series[0], series[1:]...); got != 0 {
			t.Errorf("before the first launch, %q is %v", series, got)
		}
	}

	profile := fake.Profile(r.version, func(p *cloudapi.ProfileConfig) { p.Persist = true })
	body := fmt.Sprintf(`{"profileId":%q}`, profile)
	s := r.session(t, "POST", "/sessions/profile", body)
	refuse := func(body string, want int) {
		t.Helper()
		status, text := r.call(contracttest.AllowInvalidRequest(t.Context()), t, "POST", "/sessions/profile", body, "X-API-Key", workerKey)
		if status != want {
			t.Errorf("got %d %s, want %d", status, text, want)
		}
	}
	refuse(body, http.StatusServiceUnavailable) // MAX_SESSIONS
	tab := openTab(t, *s.WebSocketDebuggerUrl)
	tab.call(t, "Page.navigate", map[string]any{"url": r.url + "/health"}, &struct{}{})
	r.awaitMetric(t, 1, "svc_worker_egress_denied_total", "reason", "requested")
	lost, err := ws.Dial(t.Context(), *s.WebSocketDebuggerUrl+"&resume=7&client=lost", nil, ws.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, _, _ = lost.Read(t.Context()) // the close frame
	running := r.scrape(t)
	for _, series := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{1, "svc_worker_launches_total", []string{"result", "success", "start", "cold"}},
		{1, "svc_worker_launches_total", []string{"result", "not_admitted", "start", "none"}},
		{1, "svc_worker_launch_duration_seconds", []string{"step", "total"}},
		{1, "svc_worker_launch_duration_seconds", []string{"step", "authorized"}},
		{1, "svc_worker_launch_duration_seconds", []string{"step", "started"}},
		{0, "svc_worker_launch_duration_seconds", []string{"step", "claimed"}},
		{1, "svc_worker_sessions", nil},
		{1, "svc_worker_capacity_sessions", nil},
		{0, "svc_worker_available", nil},
		{0, "svc_worker_draining", nil},
		{1, "svc_worker_cdp_connections", nil},
		{0, "svc_worker_queue_length", nil},
		{1, "svc_worker_resumes_total", []string{"result", "nothing_to_resume"}},
		{0, "svc_worker_warm_browsers", []string{"engine", "chromium"}},
		{0, "svc_worker_warm_browsers_target", nil},
		{0, "svc_worker_warm_browsers_starting", nil},
		{1, "svc_worker_cloud_request_seconds", []string{"operation", "authorizeLaunch", "code", "200"}},
		{1, "svc_worker_cloud_request_seconds", []string{"operation", "startProfileSession", "code", "201"}},
		{0, "svc_worker_report_backlog_age_seconds", nil},
	} {
		if got := running.Value(t, series.name, series.labels...); got != series.want {
			t.Errorf("while the session runs, %s %q is %v, want %v", series.name, series.labels, got, series.want)
		}
	}

	r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
	fake.Always(cloudtest.Authorize, cloudtest.Reset)
	refuse(body, http.StatusServiceUnavailable)
	fake.Always(cloudtest.Authorize, nil)
	fake.Limit(0)
	refuse(body, http.StatusPaymentRequired)
	refuse(fmt.Sprintf(`{"profileId":%q}`, nobody), http.StatusNotFound)
	r.call(t.Context(), t, "POST", "/fleet/drain", "", "X-API-Key", workerKey)
	after := r.scrape(t)
	for _, series := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{1, "svc_worker_session_ends_total", []string{"reason", "killed"}},
		{1, "svc_worker_launches_total", []string{"result", "failed", "start", "none"}},
		{1, "svc_worker_launches_total", []string{"result", "refused", "start", "none"}},
		{1, "svc_worker_launches_total", []string{"result", "invalid", "start", "none"}},
		{0, "svc_worker_sessions", nil},
		{1, "svc_worker_draining", nil},
		{0, "svc_worker_available", nil},
	} {
		if got := after.Value(t, series.name, series.labels...); got != series.want {
			t.Errorf("at the end, %s %q is %v, want %v", series.name, series.labels, got, series.want)
		}
	}
	if got := after.Value(t, "svc_worker_cloud_request_seconds", "operation", "authorizeLaunch", "code", "error"); got < 1 {
		t.Errorf("got %v requests without an answer, want at least one", got)
	}
	saved := after.Value(t, "svc_worker_profile_saves_total", "result", "saved") + after.Value(t, "svc_worker_profile_saves_total", "result", "unclean_end")
	if saved != 1 {
		t.Errorf("got %v saves of profile data, want one", saved)
	}
	r.awaitMetric(t, 0, "svc_worker_cdp_connections")
	after.Lint(t)
	after.CheckDocument(t, "../../../openapi/operations/METRICS.md", "svc_worker_")
	t.Logf("%d series", after.Series)
}

func TestMetrics_BacklogAgesWhileCloudIsAway(t *testing.T) {
	fake := cloudtest.New(t)
	r := startTestWorker(t, fake, withMetricsToken)
	s := r.launch(t)
	fake.Down(true)
	r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
	testenv.Eventually(t, "an age of the backlog", func() bool {
		return r.scrape(t).Value(t, "svc_worker_report_backlog_age_seconds") > 0
	})
	fake.Down(false)
	r.awaitMetric(t, 0, "svc_worker_report_backlog_age_seconds")
}

func TestMetrics_RequireTokenOrWorkerKey(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withMetricsToken)
	for _, test := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"none", nil, 401},
		{"wrong token", []string{"Authorization", "Bearer wrong"}, 401},
		{"the token as key", []string{"X-API-Key", metricsToken}, 401},
		{"the organization's key", []string{"X-API-Key", cloudtest.Key}, 401},
		{"the organization's key as token", []string{"Authorization", "Bearer " + cloudtest.Key}, 401},
		{"the console's cookie", []string{"Cookie", "svc_console=" + r.consoleToken(t)}, 401},
		{"token", []string{"Authorization", "Bearer " + metricsToken}, 200},
		{"worker key", []string{"X-API-Key", workerKey}, 200},
		{"worker key as token", []string{"Authorization", "Bearer " + workerKey}, 200},
	} {
		status, text := r.call(contracttest.AllowInvalidRequest(t.Context()), t, "GET", "/metrics", "", test.headers...)
		if status != test.status || status == 200 != strings.Contains(string(text), "svc_worker_sessions") {
			t.Errorf("%s: got %d %.100s, want %d", test.name, status, text, test.status)
		}
	}
	if status, _ := r.call(contracttest.AllowInvalidRequest(t.Context()), t, "GET", "/sessions", "", "Authorization", "Bearer "+metricsToken); status != 401 {
		t.Errorf("the metrics token opens /sessions: %d", status)
	}
}

func TestMetrics_OnAddressOfTheirOwn(t *testing.T) {
	address := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	r := startTestWorker(t, cloudtest.New(t), withMetricsToken, func(c *app.Config) { c.Metrics.Address = address })
	if status, _ := r.call(contracttest.AllowInvalidRequest(t.Context()), t, "GET", "/metrics", "", "Authorization", "Bearer "+metricsToken); status != 404 {
		t.Errorf("on the port of the API: got %d, want 404", status)
	}
	answer, err := http.Get("http://" + address + metrics.Path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("got %d: %v", answer.StatusCode, err)
	}
	metricstest.Parse(t, text).Value(t, "svc_worker_sessions")

	// The tests allow browsers the loopback, but not this listener.
	tab := openTab(t, *r.launch(t).WebSocketDebuggerUrl)
	tab.call(t, "Page.navigate", map[string]any{"url": "http://" + address + metrics.Path}, &struct{}{})
	testenv.Eventually(t, "the refusal of the page", func() bool {
		return strings.Contains(tab.eval(t, `document.body ? document.body.innerText : ""`), " is denied by the egress policy")
	})
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if answer, err := http.Get("http://" + address + metrics.Path); err == nil {
		_ = answer.Body.Close()
		t.Errorf("after the worker stopped: got %d", answer.StatusCode)
	}
}

func TestMetrics_LaunchHasTraceAsExemplar(t *testing.T) {
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(collector.Close)
	r := startTestWorker(t, cloudtest.New(t), withMetricsToken, func(c *app.Config) { c.Traces.Endpoint = collector.URL })
	const traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q}`, r.cloud.Profile(r.version)),
		"Traceparent", "00-"+traceID+"-00f067aa0ba902b7-01")
	status, text := r.call(t.Context(), t, "GET", "/metrics", "", "Authorization", "Bearer "+metricsToken,
		"Accept", "application/openmetrics-text;version=1.0.0")
	if status != http.StatusOK {
		t.Fatalf("got %d", status)
	}
	exemplar := regexp.MustCompile(`svc_worker_launch_duration_seconds_bucket\{step="total",le="[0-9.e+-]+"\} 1 # \{trace_id="` + traceID + `"\}`)
	if !exemplar.Match(text) {
		t.Errorf("no exemplar of the launch:\n%s", regexp.MustCompile(`(?m)^svc_worker_launch_duration.*total.*$`).FindAll(text, -1))
	}
}

// TestMetrics_ScrapeUnderLoad reports figures; it fails only if the series grow with the
// number of launches.
func TestMetrics_ScrapeUnderLoad(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withMetricsToken)
	r.session(t, "DELETE", "/sessions/"+r.launch(t).Id.String(), "")
	first := r.scrape(t).Series
	fastest, slowest, total := time.Hour, time.Duration(0), time.Duration(0)
	rounds := testenv.Depth(5, 30)
	for range rounds {
		s := r.launch(t)
		began := time.Now()
		r.scrape(t)
		took := time.Since(began)
		fastest, slowest, total = min(fastest, took), max(slowest, took), total+took
		r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
	}
	last := r.scrape(t).Series
	t.Logf("%d series, scrape %v at least, %v on average, %v at most", last, fastest, total/time.Duration(rounds), slowest)
	if last > first+20 { // another code of a request to the cloud
		t.Errorf("%d series after one launch, %d after %d", first, last, rounds+1)
	}
}
