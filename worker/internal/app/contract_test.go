package app_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// cloudContract returns the cloud's contract as /health reports it.
func (r *testWorker) cloudContract(t *testing.T) workerapi.CloudContract {
	t.Helper()
	_, text := r.call(t.Context(), t, "GET", "/health", "")
	return decode[workerapi.WorkerHealthResponse](t, text).Data.CloudContract
}

// awaitFit waits until /health reports this fit of the cloud's contract.
func (r *testWorker) awaitFit(t *testing.T, fit workerapi.CloudContractFit) workerapi.CloudContract {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		got := r.cloudContract(t)
		if got.Fit == fit {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatalf("the cloud's contract is %s, want %s\n%s", got.Fit, fit, r.log)
		}
	}
}

// awaitLog waits until the log contains line.
func (r *testWorker) awaitLog(t *testing.T, line string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(r.log.String(), line); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the log lacks %q:\n%s", line, r.log)
		}
	}
}

func TestContract_OtherMajorRefusesLaunches(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	expected := workerapi.CloudContract{Expected: cloudapi.ContractVersion, Actual: new(cloudapi.ContractVersion), Fit: workerapi.CloudContractFitFits}
	if diff := cmp.Diff(expected, r.awaitFit(t, workerapi.CloudContractFitFits)); diff != "" {
		t.Errorf("at boot (-want +got):\n%s", diff)
	}
	running := r.launch(t)
	body := `{"profileId":"` + r.cloud.Profile(r.version).String() + `","browser":{"headless":true}}`
	r.cloud.SetContractVersion("2.0.0")
	for range 3 {
		status, text := r.call(contracttest.AllowInvalidRequest(t.Context()), t, "POST", "/sessions/profile", body, "X-API-Key", workerKey)
		said := decode[failure](t, text)
		if status != 503 || said.Error.Code != "EXTERNAL_SERVICE_ERROR" || !strings.Contains(said.Error.Message, "The cloud implements version 2.0.0 of the contract") {
			t.Errorf("a launch got %d %s, want 503", status, text)
		}
	}
	expected.Actual, expected.Fit = new("2.0.0"), workerapi.CloudContractFitIncompatible
	if diff := cmp.Diff(expected, r.cloudContract(t)); diff != "" {
		t.Errorf("after the change (-want +got):\n%s", diff)
	}
	_, text := r.call(t.Context(), t, "GET", "/fleet/status", "", "X-API-Key", workerKey)
	if diff := cmp.Diff(expected, decode[workerapi.FleetStatusResponse](t, text).Data.License.CloudContract); diff != "" {
		t.Errorf("in /fleet/status (-want +got):\n%s", diff)
	}
	if n := strings.Count(r.log.String(), "another major version of the contract"); n != 1 {
		t.Errorf("got %d log messages, want one", n)
	}
	if got := r.session(t, "GET", "/sessions/"+running.Id.String(), ""); got.Status != sharedapi.SessionStatusRunning {
		t.Errorf("the running session has status %s", got.Status)
	}
	r.cloud.SetContractVersion(cloudapi.ContractVersion)
	if got := r.session(t, "POST", "/sessions/profile", body); got.Status != sharedapi.SessionStatusRunning {
		t.Errorf("after the contract fits again, a launch has status %s", got.Status)
	}
}

func TestContract_WorkerStartsWithAnyVersion(t *testing.T) {
	for name, test := range map[string]struct {
		cloud  func(*cloudtest.Cloud)
		fit    workerapi.CloudContractFit
		logged string
	}{
		"away":          {func(c *cloudtest.Cloud) { c.Down(true) }, workerapi.CloudContractFitUnheard, `level=WARN msg="failed to check the contract version of the cloud at startup"`},
		"another major": {func(c *cloudtest.Cloud) { c.SetContractVersion("2.0.0") }, workerapi.CloudContractFitIncompatible, `level=ERROR msg="the cloud implements another major version of the contract`},
		"without a version": {func(c *cloudtest.Cloud) { c.SetContractVersion("") }, workerapi.CloudContractFitUnknown,
			`level=WARN msg="the cloud does not state its contract version`},
	} {
		t.Run(name, func(t *testing.T) {
			fake := cloudtest.New(t)
			fake.HeartbeatEvery(time.Second)
			test.cloud(fake)
			r := startTestWorker(t, fake)
			r.awaitFit(t, test.fit)
			r.awaitLog(t, test.logged)
			if test.fit == workerapi.CloudContractFitUnknown {
				r.launch(t) // launches work
			}
			fake.Down(false)
			fake.SetContractVersion(cloudapi.ContractVersion)
			r.awaitFit(t, workerapi.CloudContractFitFits) // heartbeats continue
		})
	}
}

func TestContract_HeaderOnEveryAnswer(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	s := r.launch(t)
	base, control := "/browsers/"+s.LaunchId.String(), token(*s.ViewUrl)
	debugger, err := url.Parse(*s.WebSocketDebuggerUrl)
	if err != nil {
		t.Fatal(err)
	}
	launch := url.Values{"env": {`{"profileId":"` + r.cloud.Profile(r.version).String() + `"}`}}
	for _, test := range []struct {
		path, header, value string
		upgrade             bool
		status              int
	}{
		{"/health", "", "", false, 200},
		{"/sessions", "", "", false, 401},
		{"/nowhere", "", "", false, 404},
		{"/docs", "", "", false, 200},
		{"/openapi.yaml", "", "", false, 200},
		{base + "/view", "", "", false, 404},
		{base + "/view?ct=" + control, "", "", false, 303},
		{base + "/view", "X-Svc-Token", control, false, 200},
		{base + "/json/version", "X-Svc-Token", control, false, 200},
		{base + "/screenshot", "X-Svc-Token", control, false, 200},
		{debugger.RequestURI(), "", "", true, 101},
		{debugger.Path + "?resume=0&client=one", "X-Svc-Token", control, true, 101},
		{base + "/vnc", "X-Svc-Token", control, true, 101},
		{base + "/vnc", "", "", true, 403},
		{"/launch?" + launch.Encode(), "X-API-Key", cloudtest.Key, true, 101},
		{"/launch?" + launch.Encode(), "X-API-Key", "wrong", true, 401},
	} {
		request, err := http.NewRequestWithContext(t.Context(), "GET", r.url+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if test.header != "" {
			request.Header.Set(test.header, test.value)
		}
		if test.upgrade {
			for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
				request.Header.Set(name, value)
			}
		}
		answer, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		path, _, _ := strings.Cut(test.path, "?")
		if got := answer.Header.Values("X-Svc-Contract"); answer.StatusCode != test.status || !slices.Equal(got, []string{"1.0.0"}) || answer.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: %d with X-Svc-Contract %q, want %d", path, answer.StatusCode, got, test.status)
		}
	}
}
