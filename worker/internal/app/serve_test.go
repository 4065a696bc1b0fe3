package app_test

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

const nobody = "019a5f3e-8d20-7f66-b0a5-1c4e7f9a0b04"

func TestRoutes_RequireWorkerKey(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	s := r.launch(t)
	launch := `{"profileId":"` + nobody + `"}`
	for _, op := range []struct {
		method, path, body string
		status             int // with the right key; 0 for public ones
	}{
		{"GET", "/health", "", 0},
		{"GET", "/profiles/versions", "", 200},
		{"POST", "/sessions/profile", launch, 404},
		{"GET", "/sessions", "", 200},
		{"GET", "/sessions/" + s.Id.String(), "", 200},
		{"GET", "/sessions/" + nobody, "", 404},
		{"DELETE", "/sessions/" + nobody, "", 404},
		{"DELETE", "/sessions/" + s.Id.String(), "", 200},
	} {
		for _, credential := range []struct {
			name    string
			headers []string
			opens   bool
		}{
			{"none", nil, false},
			{"empty", []string{"X-API-Key", ""}, false},
			{"wrong", []string{"X-API-Key", "wrong"}, false},
			{"the organization's", []string{"X-API-Key", cloudtest.Key}, false},
			{"as bearer", []string{"Authorization", "Bearer " + workerKey}, false},
			{"a control token", []string{"X-Svc-Token", token(*s.ViewUrl), "X-API-Key", token(*s.ViewUrl)}, false},
			{"right", []string{"X-API-Key", workerKey}, true},
		} {
			status, text := r.call(contracttest.AllowInvalidRequest(t.Context()), t, op.method, op.path, op.body, credential.headers...)
			switch {
			case op.status == 0:
				if status != 200 {
					t.Errorf("%s %s, key %s: answered %d", op.method, op.path, credential.name, status)
				}
			case credential.opens:
				if status != op.status {
					t.Errorf("%s %s, key %s: answered %d %s, want %d", op.method, op.path, credential.name, status, text, op.status)
				}
			default:
				if got := decode[failure](t, text); status != 401 || got.Success || got.Error.Code != "AUTHENTICATION_ERROR" || got.Error.Message == "" {
					t.Errorf("%s %s, key %s: answered %d %s, want 401", op.method, op.path, credential.name, status, text)
				}
			}
		}
	}
}

func token(address string) string {
	_, token, _ := strings.Cut(address, "?ct=")
	return token
}

// TestWorkerKey_FallsBackToOrganizationKey is specification 5.4.2.
func TestWorkerKey_FallsBackToOrganizationKey(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), func(c *app.Config) { c.WorkerKey = "" })
	if status, _ := r.call(t.Context(), t, "GET", "/sessions", "", "X-API-Key", cloudtest.Key); status != 200 {
		t.Errorf("answered %d", status)
	}
}

// TestWorkerKey_GeneratedAtEveryStartAndPrintedOnce is specification 5.4.3.
func TestWorkerKey_GeneratedAtEveryStartAndPrintedOnce(t *testing.T) {
	fake := cloudtest.New(t)
	keyPattern := regexp.MustCompile(`wrk_[a-z2-7]+`)
	var keys []string
	for range 2 {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout := os.Stdout
		os.Stdout = write //nolint:reassign // the key is printed to stdout
		r := startTestWorker(t, fake, func(c *app.Config) { c.WorkerKey, c.OrganizationKey = "", "" })
		os.Stdout = stdout //nolint:reassign // restores stdout
		_ = write.Close()
		printed, err := io.ReadAll(read)
		if err != nil {
			t.Fatal(err)
		}
		found := keyPattern.FindAllString(string(printed), -1)
		if len(found) != 1 {
			t.Fatalf("printed %d keys: %s", len(found), printed)
		}
		keys, r.secrets = append(keys, found[0]), append(r.secrets, found[0])
		if status, _ := r.call(t.Context(), t, "GET", "/sessions", "", "X-API-Key", found[0]); status != 200 {
			t.Errorf("with the key: answered %d", status)
		}
		if status, _ := r.call(contracttest.AllowInvalidRequest(t.Context()), t, "GET", "/sessions", ""); status != 401 {
			t.Errorf("without: answered %d", status)
		}
		if status, _ := r.call(t.Context(), t, "POST", "/sessions/profile", `{"profileId":"`+nobody+`"}`, "X-API-Key", found[0]); status != 424 {
			t.Errorf("a launch without an organization key: answered %d", status)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	}
	if keys[0] == keys[1] {
		t.Error("the key is the same after a restart")
	}
}

func TestRoutes_ServeExplorerAndDocuments(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), func(c *app.Config) { c.WorkerID = "worker-1" })
	ctx := contracttest.AllowUndocumentedRoute(t.Context())
	for path, want := range map[string]string{
		"/docs": "<html", "/openapi.json": `"launchProfile"`, "/openapi.yaml": "operationId: launchProfile", "/w/worker-1/openapi.json": `"launchProfile"`,
		"/w/worker-1": `<base href="/w/worker-1/">`,
	} {
		if status, text := r.call(ctx, t, "GET", path, ""); status != 200 || !strings.Contains(string(text), want) {
			t.Errorf("GET %s: got %d without %q: %.100s", path, status, want, text)
		}
	}
	for path, status := range map[string]int{"/nothing": 404, "/w/worker-2/health": 404} {
		if got, text := r.call(ctx, t, "GET", path, ""); got != status || decode[failure](t, text).Error.Code != "RESOURCE_NOT_FOUND" {
			t.Errorf("GET %s answered %d %s, want %d", path, got, text, status)
		}
	}
}

func TestShutdown_LeavesNoResources(t *testing.T) {
	fake := cloudtest.New(t)
	r := startTestWorker(t, fake)
	first, second := r.launch(t), r.launch(t)
	fake.Await(t, 0, 2)
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	r.assertNoLeftovers(t)
	for _, call := range fake.Calls(cloudtest.End) {
		if *call.End.EndReason != "drain" || *call.End.Status != "killed" {
			t.Errorf("ended %+v", call.End)
		}
	}
	if reserved, running := fake.Slots(); reserved+running > 0 {
		t.Errorf("the cloud has %d reserved and %d running slots of %s and %s", reserved, running, first.Id, second.Id)
	}
}

func TestRestart_KeepsMachineAndDeliversPendingReports(t *testing.T) {
	fake := cloudtest.New(t)
	r := startTestWorker(t, fake)
	s := r.launch(t)
	fake.Down(true)
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if waiting, _ := filepath.Glob(filepath.Join(r.config.DataDir, "reports", "*")); len(waiting) != 1 {
		t.Errorf("got pending reports %v", waiting)
	}
	fake.Down(false)
	r.start(t)
	fake.Await(t, 0, 0)
	if ends := fake.Calls(cloudtest.End); len(ends) != 1 || ends[0].SessionID != s.Id {
		t.Errorf("ends %+v", ends)
	}
	testenv.Eventually(t, "the machine reports with two boot ids", func() bool {
		machines, boots := map[string]bool{}, map[uuid.UUID]bool{}
		for _, call := range fake.Calls(cloudtest.Heartbeat) {
			machines[call.Heartbeat.MachineId], boots[call.Heartbeat.BootId] = true, true
		}
		return len(machines) == 1 && !machines[""] && len(boots) == 2
	})
	if status, _ := r.call(t.Context(), t, "GET", "/sessions/"+s.Id.String(), "", "X-API-Key", workerKey); status != 404 {
		t.Errorf("a session of the earlier boot: answered %d", status)
	}
	if err := r.dial(t, *s.WebSocketDebuggerUrl); err == nil {
		t.Error("a token of the earlier boot is still valid")
	}
}

func TestServe_SecondWorkerOnSameDataDirFails(t *testing.T) {
	fake := cloudtest.New(t)
	r := startTestWorker(t, fake)
	fake.Always(cloudtest.Start, cloudtest.Reset)
	s := r.launch(t) // its start report is in the journal
	second := newTestWorker(t, fake, func(c *app.Config) { c.DataDir = r.config.DataDir })
	err := app.Serve(t.Context(), second.config, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "in use by another worker") {
		t.Errorf("the second worker ended with %v", err)
	}
	if waiting, _ := filepath.Glob(filepath.Join(r.config.DataDir, "reports", "*.json")); len(waiting) != 1 {
		t.Errorf("the first worker's pending reports: %v", waiting)
	}
	if err := r.dial(t, *s.WebSocketDebuggerUrl); err != nil {
		t.Errorf("the first worker's browser: %v", err)
	}
}

func TestServe_PortInUseFails(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	second := newTestWorker(t, r.cloud, func(c *app.Config) { c.Port = r.config.Port })
	if err := app.Serve(t.Context(), second.config, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("ended with %v", err)
	}
	got := decode[workerapi.WorkerHealthResponse](t, second.health(t, r.url))
	if got.Data.Status != workerapi.WorkerHealthStatusOk {
		t.Errorf("the first worker: got health %+v", got.Data)
	}
}

func (r *testWorker) health(t *testing.T, url string) []byte {
	t.Helper()
	r.url = url
	_, text := r.call(t.Context(), t, "GET", "/health", "")
	return text
}
