package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

// profiles runs `svc-worker profiles` with the environment of the worker.
func (w *worker) profiles(t *testing.T, words ...string) (string, error) {
	t.Helper()
	bin, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "svc-worker"), append([]string{"profiles"}, words...)...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, w.environment...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestProfileStore_LocalDataBecomesFirstVersion saves a profile on the disk of a worker,
// then restarts the worker with a store: the data is used and becomes the first version.
func TestProfileStore_LocalDataBecomesFirstVersion(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	server := httptest.NewServer(http.HandlerFunc(workerSite))
	t.Cleanup(server.Close)
	profileID := env.profile(t, cloudapi.CreateProfileRequest{BrowserVersion: env.worker.newestVersion(t), Persist: new(true)})
	request := workerapi.LaunchProfileRequest{ProfileId: &profileID}
	versions := func(want int) {
		t.Helper()
		answer, err := env.dashboard.ListProfileDataVersionsWithResponse(t.Context(), profileID)
		requireAnswer(t, err, answer, http.StatusOK)
		if found := answer.JSON200.Data.Items; len(found) != want {
			t.Errorf("the cloud has versions %+v, want %d", found, want)
		}
	}
	w := env.worker
	saving := w.launch(t, request)
	fillProfile(t, saving, server.URL)
	w.killSession(t, saving.Id)
	versions(0)
	w.drain(t)

	w.environment = append(w.environment, "OBJECT_STORE_URL=file://"+publicDir(t))
	w.start(t)
	first := w.launch(t, request)
	requireProfile(t, first, server.URL)
	if ended := w.killSession(t, first.Id); ended.DataSaved == nil || !*ended.DataSaved {
		t.Fatalf("the data was not saved: %v", ended.DataNotSavedReason)
	}
	versions(1)
	other := startWorker(t, env.cloud, env.key, w.environment[len(w.environment)-1])
	second := other.launch(t, request)
	requireProfile(t, second, server.URL)
	other.killSession(t, second.Id)

	if out, err := w.profiles(t, "versions", profileID.String()); err != nil || !strings.Contains(out, "current") {
		t.Errorf("versions: %v\n%s", err, out)
	}
	if out, err := w.profiles(t, "versions", "--local", profileID.String()); err != nil || !strings.Contains(out, "good") {
		t.Errorf("versions --local: %v\n%s", err, out)
	}
	if out, err := w.profiles(t, "gc"); err != nil || !strings.Contains(out, "of 1 profiles") {
		t.Errorf("gc: %v\n%s", err, out)
	}
}

// TestProfileStore_ShutdownCutsSave stops a worker whose store does not answer: the worker
// ends in time, its log has the profile, and the last version stays.
func TestProfileStore_ShutdownCutsSave(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	backend := s3mem.New()
	if err := backend.CreateBucket("profiles"); err != nil {
		t.Fatal(err)
	}
	var hangs atomic.Bool
	s3 := gofakes3.New(backend).Server()
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hangs.Load() && r.Method == http.MethodPut {
			_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice the end of the client
			<-r.Context().Done()
			return
		}
		s3.ServeHTTP(w, r)
	}))
	t.Cleanup(store.Close)
	site := httptest.NewServer(http.HandlerFunc(workerSite))
	t.Cleanup(site.Close)
	w := startWorker(t, env.cloud, env.key, "SAVE_TIMEOUT=8s", "AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=secret",
		"OBJECT_STORE_URL=s3://profiles?region=us-east-1&use_path_style=true&disable_https=true&endpoint="+store.URL)
	profileID := env.profile(t, cloudapi.CreateProfileRequest{BrowserVersion: w.newestVersion(t), Persist: new(true)})
	request := workerapi.LaunchProfileRequest{ProfileId: &profileID}
	saving := w.launch(t, request)
	fillProfile(t, saving, site.URL)
	w.killSession(t, saving.Id)

	cut := w.launch(t, request)
	hangs.Store(true)
	began := time.Now()
	w.signalAndWait(t, syscall.SIGTERM, stopTimeout)
	if took := time.Since(began); took < 8*time.Second {
		t.Errorf("the worker did not wait for the save: it ended after %v", took)
	}
	log := w.logText()
	if !strings.Contains(log, "profile data not saved: the worker stopped before the save was complete") || !strings.Contains(log, cut.Id.String()) {
		t.Error("the log has no error with the profile that was not saved")
	}
	hangs.Store(false)
	w.start(t)
	requireProfile(t, w.launch(t, request), site.URL)
	answer, err := env.dashboard.ListProfileDataVersionsWithResponse(t.Context(), profileID)
	requireAnswer(t, err, answer, http.StatusOK)
	if found := answer.JSON200.Data.Items; len(found) != 1 || found[0].SessionId != saving.Id {
		t.Errorf("got versions %+v", found)
	}
}
