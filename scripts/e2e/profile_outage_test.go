package e2e

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
)

// network connects a worker with its cloud. While it is cut, requests get no answer.
type network struct {
	*httptest.Server
	proxy http.Handler

	mu    sync.Mutex
	ready chan struct{} // closed unless the network is cut
}

func newNetwork(t *testing.T, c *cloud) *network {
	t.Helper()
	target, err := url.Parse(c.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorLog = log.New(io.Discard, "", 0) // of requests that a worker has canceled
	n := &network{proxy: proxy, ready: make(chan struct{})}
	close(n.ready)
	n.Server = httptest.NewServer(n)
	t.Cleanup(n.Close)
	return n
}

func (n *network) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	ready := n.ready
	n.mu.Unlock()
	select {
	case <-ready:
		n.proxy.ServeHTTP(w, r)
	case <-r.Context().Done():
	}
}

// cut cuts the network until restore is called.
func (n *network) cut() (restore func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ready = make(chan struct{})
	return sync.OnceFunc(func() { close(n.ready) })
}

// profileOutage is a profile that a session of a worker uses, whose network is cut. Another
// worker of the organization reaches the cloud.
type profileOutage struct {
	account *account
	dsn     string
	network *network
	worker  *worker
	other   *worker
	session workerapi.BrowserSession
	request workerapi.LaunchProfileRequest
	site    string
	restore func()
}

func newProfileOutage(t *testing.T) *profileOutage {
	t.Helper()
	o := &profileOutage{dsn: dbtest.NewDSN(t)}
	c := startCloud(t, "DATABASE_URL="+o.dsn)
	o.account, o.network = c.signUp(t), newNetwork(t, c)
	store := "OBJECT_STORE_URL=file://" + publicDir(t)
	o.worker = startWorker(t, c, o.account.key, store, "SVC_CLOUD_URL="+o.network.URL)
	o.other = startWorker(t, c, o.account.key, store)
	server := httptest.NewServer(http.HandlerFunc(workerSite))
	t.Cleanup(server.Close)
	o.site = server.URL
	profileID := o.account.profile(t, cloudapi.CreateProfileRequest{BrowserVersion: o.worker.newestVersion(t), Persist: new(true)})
	o.request = workerapi.LaunchProfileRequest{ProfileId: &profileID}
	o.session = o.worker.launch(t, o.request)
	fillProfile(t, o.session, o.site)
	o.restore = o.network.cut()
	t.Cleanup(o.restore) // before the worker stops
	return o
}

// requireHeld checks that the session keeps the data from other workers.
func (o *profileOutage) requireHeld(t *testing.T) {
	t.Helper()
	refusal := o.other.requireLaunchRefused(t, o.request, http.StatusConflict)
	if holder := (*refusal.Details)[0].Constraint; holder == nil || (*holder)["sessionId"] != o.session.Id.String() {
		t.Errorf("got %+v", refusal)
	}
}

// requireSaved waits until another worker can launch the profile. The data must be complete.
func (o *profileOutage) requireSaved(t *testing.T) {
	t.Helper()
	eventually(t, 90*time.Second, "another worker launches the profile", func() error {
		answer, err := o.other.api.LaunchProfileWithResponse(t.Context(), o.request)
		if err != nil || answer.JSON201 == nil {
			return fmt.Errorf("%s: %w", answer.Body, err)
		}
		requireProfile(t, answer.JSON201.Data, o.site)
		o.other.killSession(t, answer.JSON201.Data.Id)
		return nil
	})
}

// TestProfileOutage_KeepsData ends a session while its worker does not reach the cloud: for
// the 10 s that the end takes at least, for a minute with depth=full, and for so long that
// the cloud reclaims its slot.
func TestProfileOutage_KeepsData(t *testing.T) {
	t.Parallel()
	o := newProfileOutage(t)
	began := time.Now()
	requireSave(t, o.worker.killSession(t, o.session.Id), "pending")
	o.requireHeld(t)
	time.Sleep(time.Duration(testenv.Depth(0, 60))*time.Second - time.Since(began))
	o.requireHeld(t)
	o.account.reclaimSlot(t, o.dsn, o.session.Id, 5*time.Minute)
	o.requireHeld(t)
	o.restore()
	o.requireSaved(t)
	answer, err := o.worker.api.GetBrowserSessionWithResponse(t.Context(), o.session.Id)
	requireAnswer(t, err, answer, http.StatusOK)
	requireSave(t, answer.JSON200.Data, "saved")
}

// requireSave checks the result of a save: saved, or the reason why not.
func requireSave(t *testing.T, s workerapi.BrowserSession, want string) {
	t.Helper()
	got := "no result"
	switch {
	case s.DataNotSavedReason != nil:
		got = string(*s.DataNotSavedReason)
	case s.DataSaved != nil && *s.DataSaved:
		got = "saved"
	}
	if got != want {
		t.Errorf("got the result %q of the save, want %q", got, want)
	}
}

// TestProfileOutage_KilledWorkerDeliversVersion kills a worker while it reports a version.
func TestProfileOutage_KilledWorkerDeliversVersion(t *testing.T) {
	t.Parallel()
	o := newProfileOutage(t)
	ending := make(chan struct{})
	go func() {
		defer close(ending)
		_, _ = o.worker.api.KillBrowserSessionWithResponse(t.Context(), o.session.Id) // gets no answer
	}()
	eventually(t, 10*time.Second, "the version is in the journal", func() error {
		_, err := os.Stat(o.journal(o.session.Id))
		return err
	})
	o.worker.kill()
	<-ending
	o.requireHeld(t)
	o.restore()
	o.worker.start(t)
	o.requireSaved(t)
	if _, err := os.Stat(o.journal(o.session.Id)); err == nil {
		t.Error("the version is still in the journal")
	}
}

// journal returns the file with the reports of a session.
func (o *profileOutage) journal(session uuid.UUID) string {
	return filepath.Join(o.worker.dir, "data", "reports", session.String()+".json")
}
