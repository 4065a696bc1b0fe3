package app

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/browsers/profiledata"
	"github.com/browser-svc/svc/shared/profilekey"
)

// TestDeleteOrganization_ReleasesProfileData checks that any worker that knows the directory
// of an organization's profile data learns that the organization was deleted.
func TestDeleteOrganization_ReleasesProfileData(t *testing.T) {
	h := newTestEnv(t, nil)
	gone, kept := h.newKeyClient(t), h.newKeyClient(t)
	directory := func(k *keyClient) string {
		t.Helper()
		access, err := h.parts.profileData.Acquire(t.Context(), k.org, profiledata.Request{ProfileID: k.profile, SessionID: uuid.New(), ReadOnly: true})
		k.must(err)
		name, err := profilekey.Directory(access.Key)
		k.must(err)
		return name
	}
	own, other := directory(gone), directory(kept)
	deleted := func(name string) bool {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+"/v1/profile-data/"+name+"/deleted", nil)
		gone.must(err)
		answer, err := http.DefaultClient.Do(request)
		gone.must(err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("got %d %s: %v", answer.StatusCode, text, err)
		}
		return strings.Contains(string(text), `"deleted":true`)
	}
	if deleted(own) || deleted(other) {
		t.Error("data of an organization that exists is called deleted")
	}
	gone.must(h.parts.organizations.Delete(t.Context(), gone.org, gone.user, gone.slug))
	if !deleted(own) || deleted(other) {
		t.Errorf("after the end of one organization: %t and %t", deleted(own), deleted(other))
	}
}
