package e2e

import (
	"net/http"
	"testing"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

// testProfileVersions saves two versions of a profile's data, and manages them on the page
// of the profile.
func (e dashboardTest) testProfileVersions(t *testing.T) {
	a := e.cloud.signUp(t)
	w := startWorker(t, e.cloud, a.key, "OBJECT_STORE_URL=file://"+publicDir(t), "WORKER_ID=keeps-versions")
	id := a.profile(t, cloudapi.CreateProfileRequest{Name: "Versions", BrowserVersion: w.newestVersion(t), Persist: new(true)})
	for range 2 {
		s := w.launch(t, workerapi.LaunchProfileRequest{ProfileId: &id})
		w.killSession(t, s.Id)
	}
	versions := func(want int) {
		t.Helper()
		answer, err := a.dashboard.ListProfileDataVersionsWithResponse(t.Context(), id)
		requireAnswer(t, err, answer, http.StatusOK)
		if found := answer.JSON200.Data.Items; len(found) != want {
			t.Errorf("got versions %+v, want %d", found, want)
		}
	}
	versions(2)
	var found []string
	decode(t, e.run(t, "profile-versions", map[string]any{"user": a.credentials(), "profile": id, "machine": "keeps-versions"}), &found)
	reportFindings(t, found)
	versions(0)
}
