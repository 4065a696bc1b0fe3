package app_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// TestProfileData_SavedAtEndAndKept checks the saved data after a session has ended
// and after the cloud has deleted the profile.
func TestProfileData_SavedAtEndAndKept(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	profile := r.cloud.Profile(r.version, func(c *cloudapi.ProfileConfig) { c.Persist = true })
	body := `{"profileId":"` + profile.String() + `"}`
	s := r.session(t, "POST", "/sessions/profile", body)
	if status, text := r.call(t.Context(), t, "POST", "/sessions/profile", body, "X-API-Key", workerKey); status != 409 {
		t.Errorf("a second launch: got %d %s, want 409", status, text)
	}
	if s.DataSaved != nil || s.DataNotSavedReason != nil {
		t.Errorf("while it runs: %+v", s)
	}
	if ended := r.session(t, "DELETE", "/sessions/"+s.Id.String(), ""); ended.DataSaved == nil || !*ended.DataSaved || ended.DataNotSavedReason != nil {
		t.Errorf("after its end: %+v", ended)
	}
	snapshot := filepath.Join(r.config.DataDir, "profiles", profile.String(), "1", "manifest")
	if _, err := os.Stat(snapshot); err != nil {
		t.Fatal(err)
	}
	r.cloud.Always(cloudtest.Authorize, cloudtest.Failure(fault.NotFound, "There is no such profile."))
	if status, text := r.call(t.Context(), t, "POST", "/sessions/profile", body, "X-API-Key", workerKey); status != 404 {
		t.Errorf("a launch of a deleted profile: got %d %s, want 404", status, text)
	}
	if _, err := os.Stat(snapshot); err != nil {
		t.Errorf("the data of a deleted profile: %v", err)
	}
}
