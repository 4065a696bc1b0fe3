package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

func TestLaunch_IsDrivableAndLeaksNothing(t *testing.T) {
	t.Parallel()
	env, page := newTestEnv(t, completeBrowsers), servePage(t)
	for _, headless := range []bool{true, false} {
		t.Run(fmt.Sprintf("headless=%t", headless), func(t *testing.T) {
			request := env.newLaunchRequest(t, headless)
			session := env.worker.launch(t, request)
			if session.Status != sharedapi.SessionStatusRunning || session.ProfileId != *request.ProfileId || session.Headless != headless {
				t.Errorf("launched %+v", session)
			}
			traces := env.worker.launchResources(t, session)
			assertDrivable(t, session, page)
			env.assertUsage(t, session)
			if active := env.stats(t).ActiveProfiles; active != 1 {
				t.Errorf("activeProfiles is %d, want 1", active)
			}
			ended := env.worker.killSession(t, session.Id)
			if ended.Status != sharedapi.SessionStatusKilled || ended.WebSocketDebuggerUrl != nil || ended.DebugPort != nil {
				t.Errorf("ended %+v", ended)
			}
			traces.assertReleased(t)
			env.waitForSlots(t, 0, 5*time.Second)
			env.assertFeed(t, session, sharedapi.SessionStatusKilled, sharedapi.EndReasonKilled)
			if active := env.stats(t).ActiveProfiles; active != 0 {
				t.Errorf("activeProfiles is %d after the end", active)
			}
		})
	}
}

// assertUsage fails the test unless the organization is charged for exactly this
// session.
func (s testEnv) assertUsage(t *testing.T, session workerapi.BrowserSession) {
	t.Helper()
	charged := s.usage(t)
	if charged.Current != 1 || charged.RunningSessions != 1 || charged.ReservedSlots != 0 || len(charged.Sessions) != 1 {
		t.Fatalf("charged %+v, want one running session", charged)
	}
	row := charged.Sessions[0]
	if row.SessionId != session.Id || row.Stale || row.ProfileId == nil || *row.ProfileId != session.ProfileId {
		t.Errorf("charged for %+v, want session %s", row, session.Id)
	}
}

// assertFeed fails the test unless the feed soon shows the status and end reason of
// the session. It polls, because a heartbeat without the session may arrive before
// the report of its end.
func (s testEnv) assertFeed(t *testing.T, session workerapi.BrowserSession, status sharedapi.SessionStatus, reason sharedapi.EndReason) {
	t.Helper()
	var row cloudapi.Session
	eventually(t, 10*time.Second, "the end is in the feed", func() error {
		row = s.session(t, session.Id)
		if row.Status != status || row.EndReason == nil || string(*row.EndReason) != string(reason) {
			return fmt.Errorf("the feed has %s, want %s, %s: %+v", row.Status, status, reason, row)
		}
		return nil
	})
	if row.EndedAt == nil || row.EndedAt.Before(row.StartedAt) {
		t.Errorf("in the feed, the session ended at %v and started at %v", row.EndedAt, row.StartedAt)
	}
	if row.LaunchId != session.LaunchId || row.ProfileId != session.ProfileId || row.BrowserVersion != session.BrowserVersion {
		t.Errorf("the feed has %+v for session %+v", row, session)
	}
}

func TestLaunch_BySpecCountsAsProfileWhileRunning(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	session := env.worker.launch(t, workerapi.LaunchProfileRequest{Spec: &sharedapi.LaunchSpec{Name: new("For this launch")}})
	assertDrivable(t, session, servePage(t))
	env.assertUsage(t, session)
	if stats := env.stats(t); stats.TotalProfiles != 0 || stats.EphemeralProfiles != 1 || stats.ActiveProfiles != 1 {
		t.Errorf("while the browser runs, the statistics are %+v, want one active ephemeral profile", stats)
	}
	env.worker.killSession(t, session.Id)
	env.waitForSlots(t, 0, 5*time.Second)
	if stats := env.stats(t); stats.TotalProfiles != 0 || stats.EphemeralProfiles != 0 || stats.ActiveProfiles != 0 {
		t.Errorf("after the end, the statistics are %+v, want no profiles", stats)
	}
	answer, err := env.dashboard.GetProfileWithResponse(t.Context(), session.ProfileId)
	requireAnswer(t, err, answer, 404)
	env.assertFeed(t, session, sharedapi.SessionStatusKilled, sharedapi.EndReasonKilled)
	if name := env.session(t, session.Id).ProfileName; name != "For this launch" {
		t.Errorf("the profile name in the feed is %q", name)
	}
}

func TestLaunch_BrowserClosedByClientIsReportedAsExited(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	session := env.worker.launch(t, env.newLaunchRequest(t, true))
	traces := env.worker.launchResources(t, session)
	runScript(t, "close", map[string]any{"endpoint": *session.WebSocketDebuggerUrl}, &struct{}{})
	env.waitForSlots(t, 0, 5*time.Second)
	traces.assertReleased(t)
	env.assertFeed(t, session, sharedapi.SessionStatusExited, sharedapi.EndReasonClientClose)
}

// The profiles of another organization do not exist for a worker.
func TestLaunch_RefusesProfileOfAnotherOrganization(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	other := env.cloud.signUp(t)
	id := other.profile(t, cloudapi.CreateProfileRequest{BrowserVersion: env.worker.newestVersion(t)})
	for _, profile := range []uuid.UUID{id, uuid.New()} {
		answer, err := env.worker.api.LaunchProfileWithResponse(t.Context(), workerapi.LaunchProfileRequest{ProfileId: &profile})
		requireAnswer(t, err, answer, 404)
	}
	if charged := env.usage(t); charged.Current != 0 {
		t.Errorf("charged %+v", charged)
	}
}
