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

func TestALicensedLaunchIsDrivenAndLeavesNothing(t *testing.T) {
	site, page := newSite(t), page(t)
	for _, headless := range []bool{true, false} {
		t.Run(fmt.Sprintf("headless=%t", headless), func(t *testing.T) {
			request := site.plain(t, headless)
			session := site.worker.launch(t, request)
			if session.Status != sharedapi.SessionStatusRunning || session.ProfileId != *request.ProfileId || session.Headless != headless {
				t.Errorf("launched %+v", session)
			}
			traces := site.worker.traces(t, session)
			assertDrivable(t, session, page)
			site.assertCharged(t, session)
			if active := site.stats(t).ActiveProfiles; active != 1 {
				t.Errorf("activeProfiles is %d, want 1", active)
			}
			ended := site.worker.end(t, session.Id)
			if ended.Status != sharedapi.SessionStatusKilled || ended.WebSocketDebuggerUrl != nil || ended.DebugPort != nil {
				t.Errorf("ended %+v", ended)
			}
			traces.assertGone(t)
			site.released(t, 0, 5*time.Second)
			site.assertFeed(t, session, sharedapi.SessionStatusKilled, sharedapi.EndReasonKilled)
			if active := site.stats(t).ActiveProfiles; active != 0 {
				t.Errorf("activeProfiles is %d after the end", active)
			}
		})
	}
}

// assertCharged fails unless the session is all that the organization is
// charged for.
func (s site) assertCharged(t *testing.T, session workerapi.BrowserSession) {
	t.Helper()
	charged := s.charged(t)
	if charged.Current != 1 || charged.RunningSessions != 1 || charged.ReservedSlots != 0 || len(charged.Sessions) != 1 {
		t.Fatalf("charged %+v, want one running session", charged)
	}
	row := charged.Sessions[0]
	if row.SessionId != session.Id || row.Stale || row.ProfileId == nil || *row.ProfileId != session.ProfileId {
		t.Errorf("charged for %+v, want session %s", row, session.Id)
	}
}

// assertFeed fails unless the feed tells that end of the session, soon: a
// heartbeat without it may come before the report of its end.
func (s site) assertFeed(t *testing.T, session workerapi.BrowserSession, status sharedapi.SessionStatus, reason sharedapi.EndReason) {
	t.Helper()
	var row cloudapi.Session
	eventually(t, 10*time.Second, "the report of the end", func() error {
		row = s.feed(t, session.Id)
		if row.Status != status || row.EndReason == nil || string(*row.EndReason) != string(reason) {
			return fmt.Errorf("the feed has %s, want %s, %s: %+v", row.Status, status, reason, row)
		}
		return nil
	})
	if row.EndedAt == nil || row.EndedAt.Before(row.StartedAt) {
		t.Errorf("the feed has it end at %v, started %v", row.EndedAt, row.StartedAt)
	}
	if row.LaunchId != session.LaunchId || row.ProfileId != session.ProfileId || row.BrowserVersion != session.BrowserVersion {
		t.Errorf("the feed has %+v for %+v", row, session)
	}
}

func TestALaunchBySpecCountsAProfileWhileItLives(t *testing.T) {
	site := newSite(t)
	session := site.worker.launch(t, workerapi.LaunchProfileRequest{Spec: &sharedapi.LaunchSpec{Name: new("For this launch")}})
	assertDrivable(t, session, page(t))
	site.assertCharged(t, session)
	if stats := site.stats(t); stats.TotalProfiles != 0 || stats.EphemeralProfiles != 1 || stats.ActiveProfiles != 1 {
		t.Errorf("while it lives, stats are %+v, want one ephemeral profile, active", stats)
	}
	site.worker.end(t, session.Id)
	site.released(t, 0, 5*time.Second)
	if stats := site.stats(t); stats.TotalProfiles != 0 || stats.EphemeralProfiles != 0 || stats.ActiveProfiles != 0 {
		t.Errorf("after its end, stats are %+v, want none", stats)
	}
	answer, err := site.dashboard.GetProfileWithResponse(t.Context(), session.ProfileId)
	answered(t, err, answer, 404)
	site.assertFeed(t, session, sharedapi.SessionStatusKilled, sharedapi.EndReasonKilled)
	if name := site.feed(t, session.Id).ProfileName; name != "For this launch" {
		t.Errorf("the feed calls it %q", name)
	}
}

func TestABrowserThatAClientClosesIsReportedAsExited(t *testing.T) {
	site := newSite(t)
	session := site.worker.launch(t, site.plain(t, true))
	traces := site.worker.traces(t, session)
	node(t, "close", map[string]any{"endpoint": *session.WebSocketDebuggerUrl}, &struct{}{})
	site.released(t, 0, 5*time.Second)
	traces.assertGone(t)
	site.assertFeed(t, session, sharedapi.SessionStatusExited, sharedapi.EndReasonClientClose)
}

// A worker that is asked to launch a profile of another organization has
// nothing to launch.
func TestAForeignProfileIsNotLaunched(t *testing.T) {
	site := newSite(t)
	stranger := site.cloud.signUp(t)
	id := stranger.profile(t, cloudapi.CreateProfileRequest{BrowserVersion: site.worker.version(t)})
	for _, profile := range []uuid.UUID{id, uuid.New()} {
		answer, err := site.worker.api.LaunchProfileWithResponse(t.Context(), workerapi.LaunchProfileRequest{ProfileId: &profile})
		answered(t, err, answer, 404)
	}
	if charged := site.charged(t); charged.Current != 0 {
		t.Errorf("charged %+v", charged)
	}
}
