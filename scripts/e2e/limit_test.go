package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	openapi_types "github.com/oapi-codegen/runtime/types"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

// freeSlots is the number of browsers that the free plan allows.
const freeSlots = 3

func TestLimit_HoldsAndSessionsSurviveCloudKill(t *testing.T) {
	t.Parallel()
	cloud := startCloud(t) // with embedded PostgreSQL
	env, page := newTestEnvOn(t, cloud), servePage(t)
	request := env.newLaunchRequest(t, true)
	var sessions []workerapi.BrowserSession
	for range freeSlots {
		sessions = append(sessions, env.worker.launch(t, request))
	}
	assertFull(t, env.worker.requireLaunchRefused(t, request, http.StatusPaymentRequired))

	cloud.kill()
	eventually(t, 10*time.Second, "the cloud's PostgreSQL has exited", func() error {
		if left := processes(func(p process) bool { return p.references(cloud.dir) }); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
	refusal := env.worker.requireLaunchRefused(t, request, http.StatusServiceUnavailable)
	if refusal.Code != sharedapi.ErrorCodeEXTERNALSERVICEERROR {
		t.Errorf("without a cloud, the error is %+v", refusal)
	}
	for _, session := range sessions {
		assertDrivable(t, session, page)
	}

	cloud.start(t)
	if charged := env.usage(t); charged.Current != freeSlots || len(charged.Sessions) != freeSlots {
		t.Errorf("after its restart, the cloud charges %+v, want %d sessions", charged, freeSlots)
	}
	env.assertSignIn(t)
	assertFull(t, env.worker.requireLaunchRefused(t, request, http.StatusPaymentRequired))
	env.worker.killSession(t, sessions[0].Id)
	env.waitForSlots(t, freeSlots-1, 20*time.Second)
	env.assertFeed(t, sessions[0], sharedapi.SessionStatusKilled, sharedapi.EndReasonKilled)
	assertDrivable(t, env.worker.launch(t, request), page)
}

// assertFull fails the test unless the error is that all slots are taken.
func assertFull(t *testing.T, refusal sharedapi.Error) {
	t.Helper()
	if refusal.Code != sharedapi.ErrorCodeAUTHORIZATIONERROR || refusal.Details == nil || len(*refusal.Details) != 1 {
		t.Fatalf("at the limit, the error is %+v", refusal)
	}
	detail := (*refusal.Details)[0]
	if detail.Field != "profileId" || detail.Code != sharedapi.ErrorDetailCodeCUSTOM || detail.Message != "concurrency_limit" {
		t.Errorf("at the limit, the detail is %+v", detail)
	}
	assertBounds(t, detail, freeSlots)
}

// assertBounds fails the test unless the constraint of the detail has the limit as
// current and limit.
func assertBounds(t *testing.T, detail sharedapi.ErrorDetail, limit int) {
	t.Helper()
	if detail.Constraint == nil {
		t.Fatalf("no constraint in %+v", detail)
	}
	constraint := map[string]any(*detail.Constraint)
	if constraint["current"] != float64(limit) || constraint["limit"] != float64(limit) {
		t.Errorf("the constraint is %v, want current and limit %d", constraint, limit)
	}
}

// assertSignIn fails the test unless the user can sign in and the cloud has the
// organization and its profile.
func (s testEnv) assertSignIn(t *testing.T) {
	t.Helper()
	answer, err := s.cloud.api(t, "", "").SignInWithResponse(t.Context(), cloudapi.SignInRequest{
		Email: openapi_types.Email(s.email), Password: &s.password,
	})
	requireAnswer(t, err, answer, http.StatusOK)
	if active := answer.JSON200.Data.ActiveOrganizationId; active == nil || *active != s.org {
		t.Errorf("the active organization is %v, want %s", active, s.org)
	}
	if stats := s.stats(t); stats.TotalProfiles != 1 {
		t.Errorf("after its restart, the cloud has %d profiles, want 1", stats.TotalProfiles)
	}
}
