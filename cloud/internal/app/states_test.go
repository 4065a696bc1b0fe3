package app

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// state is a situation in which a valid request gets a status that the document lists
// for the operation.
type state struct {
	request
	status int
}

// states cover the statuses that neither access rules nor bad requests cause.
var states = []state{
	{request{operation: "changePassword", what: "without a password", before: runs(`
		UPDATE users SET password_hash = NULL WHERE id = '{callerId}'`)}, http.StatusConflict},
	{request{operation: "deleteOrganization", what: "billed by a payment provider", query: "confirmSlug=engines-{mark}", before: runs(`
		UPDATE subscriptions SET provider = 'stripe' WHERE organization_id = '{organizationId}'`)}, http.StatusConflict},
	{request{operation: "changePlan", what: "to an unknown plan", body: `{"plan": "golden"}`}, http.StatusNotFound},
	{request{operation: "removeAddOn", what: "during another change", before: runs(`
		UPDATE subscriptions SET changing_until = now() + interval '1 minute' WHERE organization_id = '{organizationId}'`)}, http.StatusConflict},
	{request{operation: "inviteMember", what: "too often", body: `{"email": "new-{mark}@example.com", "role": "member"}`, before: runs(`
		INSERT INTO auth_attempts (kind, subject, attempts, blocked_until, forget_at)
		VALUES ('invitations.organization', sha256('{organizationId}'), 100, now() + interval '1 minute', now() + interval '1 hour')`)},
		http.StatusTooManyRequests},
	{request{operation: "createProfile", what: "in an organization that is being deleted", body: `{"name": "Checkout", "browserVersion": 156}`, before: runs(`
		DELETE FROM subscriptions WHERE organization_id = '{organizationId}'`)}, http.StatusNotFound},
	{request{operation: "endProfileSession", what: "of another profile", path: "/v1/profiles/{idleProfileId}/sessions/{sessionId}"}, http.StatusNotFound},
	{request{operation: "getChromiumReleaseHeaders", what: "of an archive that the client has", query: "os=linux&arch=x86_64",
		headers: map[string]string{"If-None-Match": "*"}}, http.StatusNotModified},
	{request{operation: "downloadChromiumRelease", what: "of an incomplete archive", query: "os=linux&arch=x86_64",
		before: archives(func(path string) error { return os.Truncate(path, 1) })}, http.StatusServiceUnavailable},
	{request{operation: "getChromiumReleaseHeaders", what: "of an incomplete archive, unsent", query: "os=linux&arch=x86_64"}, http.StatusServiceUnavailable},
	{request{operation: "downloadChromiumRelease", what: "of a missing archive", query: "os=linux&arch=x86_64", before: archives(os.Remove)},
		http.StatusInternalServerError},
}

// runs returns a function that runs a statement.
func runs(statement string) func(*call) { return func(a *call) { a.exec(statement) } }

// archives returns a function that applies do to each archive in the store.
func archives(do func(path string) error) func(*call) {
	return func(a *call) {
		err := filepath.WalkDir(filepath.Join(a.env.config.DataDir, "releases"), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			return do(path)
		})
		a.must(err)
	}
}

func TestOperations_StateConflictsAnswerAsDocumented(t *testing.T) {
	h := newTestEnv(t, nil)
	h.publish(t)
	hash, operations := cheapHash(t), operationsOf(h.document.T())
	for _, s := range states { // in order, because they share the store
		t.Run(s.operation+" "+s.what, func(t *testing.T) {
			a := h.attempt(t, operations[s.operation], s.request, hash)
			a.prepare()
			if got := a.send(a.compose()); got.status != s.status {
				t.Errorf("got %s %s, want %d", got, got.body, s.status)
			}
			if !documents(a.op, s.status) {
				t.Errorf("the document does not have %d", s.status)
			}
		})
	}
}
