package proof_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/db/dbtest"
)

// A repeated authorize is the same slot (DESIGN 6), also when the first one takes
// the last profile while the second one is about to make its own.
func TestAuthorize_RepeatedSpecIsNotRefusedForItsOwnProfile(t *testing.T) {
	s := newTestEnv(t, dbtest.NewDSN(t), nil)
	s.reset()
	s.newOrganization(&model{limit: 5, most: 1}, 0)
	req := license.Request{OrgID: s.org, MachineID: "worker-1", BootID: uuid.New(), SessionID: uuid.New()}
	ask := func(r *replica, makeProfile func() (uuid.UUID, error)) license.Grant {
		t.Helper()
		own := req
		own.NewProfile = func(context.Context, *sqlx.Tx) (uuid.UUID, error) { return makeProfile() }
		grant, err := r.Authorize(t.Context(), own)
		if err != nil || !grant.Allowed {
			t.Errorf("got %+v, %v", grant, err)
		}
		return grant
	}
	var first license.Grant
	second := ask(s.replicas[0], func() (uuid.UUID, error) {
		first = ask(s.replicas[1], func() (uuid.UUID, error) { return uuid.New(), nil })
		return uuid.Nil, license.ProfileLimitError{Current: 1, Limit: 1}
	})
	if first.SlotID != second.SlotID {
		t.Errorf("the first has slot %s, the second %s", first.SlotID, second.SlotID)
	}
}
