package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/testenv"
)

// worker is a running svc-worker.
type worker struct {
	*program
	url, key    string
	address     string // host and port
	dir         string // the data directory
	launches    string // the directory with one directory for each launch
	environment []string
	api         *workerapi.ClientWithResponses
}

// completeBrowsers is the variable of a worker whose tests depend on complete browsers.
const completeBrowsers = "AUTO_ENGINE=false"

// startWorker starts a worker with an organization key and additional environment
// variables. By default it has no warm browsers, because tests count processes. It
// is stopped when the test ends and must not leak resources.
func startWorker(t *testing.T, c *cloud, key string, environment ...string) *worker {
	t.Helper()
	return startWorkerAt(t, freePort(t), c, key, environment...)
}

// startWorkerAt is startWorker with a given port.
func startWorkerAt(t *testing.T, port string, c *cloud, key string, environment ...string) *worker {
	t.Helper()
	dir := publicDir(t)
	w := &worker{
		url: "http://localhost:" + port, address: "127.0.0.1:" + port, key: "wrk_" + uuid.NewString(),
		dir: dir, launches: filepath.Join(dir, "data", "launches"),
	}
	for _, variable := range environment {
		if own, ok := strings.CutPrefix(variable, "API_KEY="); ok {
			w.key = own
		}
	}
	w.environment = append([]string{
		"PORT=" + port, "HOST=127.0.0.1", "DATA_DIR=" + filepath.Join(dir, "data"), "SVC_CLOUD_URL=" + c.url,
		"SVC_KEY=" + key, "API_KEY=" + w.key, "LOG_LEVEL=debug", "WARM_POOL=0",
		"ALLOWED_HOSTS=127.0.0.0/8,[::1]",              // the sites and proxies of the tests
		fmt.Sprintf("AUTO_ENGINE=%t", !testenv.Full()), // complete browsers take three times as long
	}, environment...)
	api, err := workerapi.NewClientWithResponses(w.url, workerapi.WithHTTPClient(contractClient(t, workerDocument, "X-API-Key", w.key)))
	if err != nil {
		t.Fatal(err)
	}
	w.api = api
	w.start(t)
	t.Cleanup(func() {
		if !w.hasExited() {
			w.drain(t)
		}
	})
	return w
}

// start restarts the worker with the same configuration.
func (w *worker) start(t *testing.T) {
	t.Helper()
	w.program = startProgram(t, "svc-worker", w.dir, filepath.Join(w.dir, "worker.log"), w.environment...)
	w.waitReady(t, w.url+"/health")
}

// drain stops the worker and fails the test if it leaks resources.
func (w *worker) drain(t *testing.T) {
	t.Helper()
	before := browserProcesses(w.launches)
	w.signalAndWait(t, syscall.SIGTERM, stopTimeout)
	assertGone(t, 0, before, w.launches)
	assertNoDirectories(t, w.launches)
}

// newestVersion returns the newest installed browser version.
func (w *worker) newestVersion(t *testing.T) int32 {
	t.Helper()
	answer, err := w.api.ListBrowserVersionsWithResponse(t.Context())
	requireAnswer(t, err, answer, http.StatusOK)
	if len(answer.JSON200.Data.Versions) == 0 {
		t.Fatal("no browser is installed")
	}
	return answer.JSON200.Data.Versions[0]
}

// launch starts a browser.
func (w *worker) launch(t *testing.T, request workerapi.LaunchProfileRequest) workerapi.BrowserSession {
	t.Helper()
	answer, err := w.api.LaunchProfileWithResponse(t.Context(), request)
	requireAnswer(t, err, answer, http.StatusCreated)
	return answer.JSON201.Data
}

// requireRoute sends a GET to a route of a browser and returns the response, which the
// contract client checks. It fails the test for another status.
func (w *worker) requireRoute(t *testing.T, session workerapi.BrowserSession, path string, status int) []byte {
	t.Helper()
	ctx := t.Context()
	if status == http.StatusBadRequest {
		ctx = contracttest.AllowInvalidRequest(ctx)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/browsers/"+session.LaunchId.String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := contractClient(t, workerDocument, "X-API-Key", w.key).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != status {
		t.Fatalf("%s, want %d: %s: %v", answer.Status, status, text, err)
	}
	return text
}

// requireLaunchRefused fails the test unless the launch is refused with the status
// and starts no process. It returns the error of the response.
func (w *worker) requireLaunchRefused(t *testing.T, request workerapi.LaunchProfileRequest, status int) sharedapi.Error {
	t.Helper()
	before, dirs := browserProcesses(w.launches), directories(t, w.launches)
	answer, err := w.api.LaunchProfileWithResponse(t.Context(), request)
	requireAnswer(t, err, answer, status)
	known := map[int]bool{}
	for _, p := range before {
		known[p.pid] = true
	}
	for _, p := range browserProcesses(w.launches) {
		// A new child of a running Chromium is not a launch; a launch has its own
		// process group.
		if !known[p.pid] && !slices.ContainsFunc(before, func(q process) bool { return q.group == p.group || q.uid == p.uid }) {
			t.Errorf("a refused launch started %v", p)
		}
	}
	if now := directories(t, w.launches); !slices.Equal(now, dirs) {
		t.Errorf("a refused launch left directories: %v, before: %v", now, dirs)
	}
	refusal := sharedapi.ErrorResponse{Success: true}
	whole := json.NewDecoder(bytes.NewReader(answer.Body))
	whole.DisallowUnknownFields()
	if err := whole.Decode(&refusal); err != nil || bool(refusal.Success) {
		t.Fatalf("the response is not an error: %s, %v", answer.Body, err)
	}
	return refusal.Error
}

// killSession ends a session.
func (w *worker) killSession(t *testing.T, id uuid.UUID) workerapi.BrowserSession {
	t.Helper()
	answer, err := w.api.KillBrowserSessionWithResponse(t.Context(), id)
	requireAnswer(t, err, answer, http.StatusOK)
	return answer.JSON200.Data
}

// testEnv is a cloud with an account and a worker.
type testEnv struct {
	*account
	cloud  *cloud
	worker *worker
}

// newTestEnv starts a test environment on a database of the shared server.
func newTestEnv(t *testing.T, environment ...string) testEnv {
	t.Helper()
	return newTestEnvOn(t, startCloud(t, "DATABASE_URL="+dbtest.NewDSN(t)), environment...)
}

// newTestEnvOn starts a worker with additional environment variables for a new account.
func newTestEnvOn(t *testing.T, c *cloud, environment ...string) testEnv {
	t.Helper()
	a := c.signUp(t)
	return testEnv{account: a, cloud: c, worker: startWorker(t, c, a.key, environment...)}
}

// newLaunchRequest creates a profile without settings and returns a request to
// launch it.
func (s testEnv) newLaunchRequest(t *testing.T, headless bool) workerapi.LaunchProfileRequest {
	t.Helper()
	id := s.profile(t, cloudapi.CreateProfileRequest{BrowserVersion: s.worker.newestVersion(t)})
	return workerapi.LaunchProfileRequest{ProfileId: &id, Browser: &workerapi.BrowserSettings{Headless: &headless}}
}

// launchResources are the processes, displays and files of a launch.
type launchResources struct {
	processes []process
	displays  map[string]fileID // the sockets of the X servers
	port      string
	dir       string
	launches  string
}

// launchResources returns the resources of a running session and checks that they
// are complete.
func (w *worker) launchResources(t *testing.T, s workerapi.BrowserSession) launchResources {
	t.Helper()
	found := launchResources{
		dir: filepath.Join(w.launches, s.LaunchId.String()), launches: w.launches, port: strconv.Itoa(int(*s.DebugPort)),
	}
	found.processes = browserProcesses(found.dir)
	found.displays = map[string]fileID{}
	for _, path := range displaySockets(found.processes) {
		if id, ok := identify(path); ok {
			found.displays[path] = id
		}
	}
	if countProcesses(found.processes, "--type=zygote") == 0 || countProcesses(found.processes, "--type=renderer") == 0 {
		t.Fatalf("processes of the browser are missing: %v", found.processes)
	}
	if _, err := os.Stat(found.dir); err != nil {
		t.Fatal(err)
	}
	wants := 1
	if s.Headless {
		wants = 0
	}
	if displays := countProcesses(found.processes, "Xvnc"); displays != wants || len(found.displays) != wants {
		t.Errorf("headless %t: %d Xvnc, displays %v", s.Headless, displays, found.displays)
	}
	return found
}

// assertReleased fails the test if a resource of the launch still exists.
func (tr launchResources) assertReleased(t *testing.T) {
	t.Helper()
	assertGone(t, 0, tr.processes, tr.dir)
	assertClosed(t, tr.port)
	if _, err := os.Stat(tr.dir); !os.IsNotExist(err) {
		t.Errorf("%s still exists (%v)", tr.dir, err)
	}
	for path, was := range tr.displays {
		if now, ok := identify(path); ok && now == was { // otherwise another worker uses the number
			t.Errorf("%s still exists", path)
		}
	}
}
