package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

// workerSite serves a page and a service worker, which answers /from-worker from its cache.
func workerSite(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/":
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>" + pageTitle + "</title>"))
	case "/worker.js":
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = w.Write([]byte(`addEventListener('fetch', (e) => { if (e.request.url.endsWith('/from-worker')) e.respondWith(caches.match(e.request)) })`))
	default:
		http.NotFound(w, r)
	}
}

// fillProfile gives a browser cookies, storage, and a service worker with a cache.
func fillProfile(t *testing.T, s workerapi.BrowserSession, site string) {
	t.Helper()
	runScript(t, "state", map[string]any{"endpoint": *s.WebSocketDebuggerUrl, "url": site, "fill": profileFill, "worker": true}, &struct{}{})
}

// profileFill is the size of a value in localStorage.
const profileFill = 1 << 20

// requireProfile checks that a browser has what fillProfile created.
func requireProfile(t *testing.T, s workerapi.BrowserSession, site string) {
	t.Helper()
	want := map[string]any{
		"theme": "dark", "large": float64(profileFill), "cookies": "seen=1", "id": float64(1), "at": "1970-01-01T00:00:00.000Z", "sizes": "1,2",
		"serviceWorker": "worker.js", "cached": "from the cache",
	}
	var got map[string]any
	runScript(t, "state", map[string]any{"endpoint": *s.WebSocketDebuggerUrl, "url": site, "worker": true}, &got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// reclaimSlot reclaims the slot of a session as if its lease had ended some time ago.
func (a *account) reclaimSlot(t *testing.T, dsn string, session uuid.UUID, ago time.Duration) {
	t.Helper()
	dbtest.Open(t, dsn, pg.Options{Role: pg.AllRole}).MustExecContext(t.Context(),
		`UPDATE license_slots SET lease_until = now() - make_interval(secs => $2) WHERE session_id = $1`, session, ago.Seconds())
	eventually(t, 10*time.Second, "the slot is reclaimed", func() error {
		answer, err := a.license.ReclaimLicenseSessionsWithResponse(t.Context())
		if err != nil || answer.JSON200 == nil || answer.JSON200.Data.Current > 0 {
			return fmt.Errorf("%s: %w", answer.Body, err)
		}
		return nil
	})
}

// TestProfileStore_DataFollowsProfile saves cookies, storage and a service worker on one
// worker and reads them on another, with one store.
func TestProfileStore_DataFollowsProfile(t *testing.T) {
	t.Parallel()
	dsn := dbtest.NewDSN(t)
	c := startCloud(t, "DATABASE_URL="+dsn)
	a := c.signUp(t)
	store := "OBJECT_STORE_URL=file://" + publicDir(t)
	first, second := startWorker(t, c, a.key, store), startWorker(t, c, a.key, store)
	server := httptest.NewServer(http.HandlerFunc(workerSite))
	t.Cleanup(server.Close)
	profileID := a.profile(t, cloudapi.CreateProfileRequest{BrowserVersion: first.newestVersion(t), Persist: new(true)})
	request := workerapi.LaunchProfileRequest{ProfileId: &profileID}
	reading := workerapi.LaunchProfileRequest{ProfileId: &profileID, Browser: &workerapi.BrowserSettings{ReadOnly: new(true)}}
	versions := func() []cloudapi.ProfileDataVersion {
		t.Helper()
		answer, err := a.dashboard.ListProfileDataVersionsWithResponse(t.Context(), profileID)
		requireAnswer(t, err, answer, http.StatusOK)
		return answer.JSON200.Data.Items
	}
	saving := first.launch(t, request)
	fillProfile(t, saving, server.URL)
	refusal := second.requireLaunchRefused(t, request, http.StatusConflict)
	if holder := (*refusal.Details)[0].Constraint; holder == nil || (*holder)["sessionId"] != saving.Id.String() || (*holder)["machineId"] == nil || (*holder)["until"] == nil {
		t.Errorf("the second launch got %+v", refusal)
	}
	if ended := first.killSession(t, saving.Id); ended.DataSaved == nil || !*ended.DataSaved {
		t.Fatalf("the data was not saved: %v", ended.DataNotSavedReason)
	}
	if found := versions(); len(found) != 1 || found[0].State != cloudapi.Current || found[0].SessionId != saving.Id {
		t.Errorf("got versions %+v", found)
	}

	read := func(s workerapi.BrowserSession) {
		t.Helper()
		requireProfile(t, s, server.URL)
	}
	using := second.launch(t, request)
	reader := first.launch(t, reading)
	read(using)
	read(reader)
	if ended := first.killSession(t, reader.Id); ended.DataSaved != nil {
		t.Errorf("a reader saved its data: %v", *ended.DataSaved)
	}

	second.kill() // its slot is stale until it is reclaimed
	first.requireLaunchRefused(t, request, http.StatusConflict)
	a.reclaimSlot(t, dsn, using.Id, 31*time.Minute)
	again := first.launch(t, request)
	read(again)
	if ended := first.killSession(t, again.Id); ended.DataSaved == nil || !*ended.DataSaved {
		t.Errorf("the data was not saved: %v", ended.DataNotSavedReason)
	}
	found := versions()
	if len(found) != 2 {
		t.Fatalf("got versions %+v", found)
	}
	eventually(t, 10*time.Second, "the cloud knows that the session has ended", func() error {
		restored, err := a.dashboard.ActivateProfileDataVersionWithResponse(t.Context(), profileID, found[1].Id)
		if err != nil || restored.StatusCode() != http.StatusOK {
			return fmt.Errorf("%v: %w", restored, err)
		}
		return nil
	})
	deleted, err := a.dashboard.DeleteProfileDataVersionWithResponse(t.Context(), profileID, found[0].Id)
	requireAnswer(t, err, deleted, http.StatusOK)
	last := first.launch(t, request)
	read(last)
	first.killSession(t, last.Id)
}
