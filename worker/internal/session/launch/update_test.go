package launch_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

func TestUpdate_ChangesRunningSession(t *testing.T) {
	r := newFixture(t, func(o *launch.Options) {
		o.LimitRules = launch.LimitRules{Default: launch.Limits{Max: time.Hour}, Highest: launch.Limits{Max: 2 * time.Hour}}
	})
	request := byProfile()
	request.Name, request.Override.Metadata = "first", map[string]string{"team": "a"}
	s := r.launch(t, request)
	if s.Name != "first" || s.Metadata["team"] != "a" {
		t.Errorf("launched as %q with %v", s.Name, s.Metadata)
	}
	update := func(u launch.Update) session.Session {
		t.Helper()
		changed, err := r.Update(s.ID, u)
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	update(launch.Update{Limits: launch.LimitChanges{Idle: new(time.Minute), Max: new(90 * time.Minute)}})
	running, _ := r.Running(s.LaunchID)
	if got := running.Lifetime.Limits(); got != (launch.Limits{Idle: time.Minute, Max: 90 * time.Minute}) {
		t.Errorf("limits %v", got)
	}
	if len(r.cloud.changed) > 0 {
		t.Error("the cloud got a report of limits")
	}
	named := update(launch.Update{Name: new("second"), Metadata: map[string]string{"team": "b"}})
	if named.Name != "second" || named.Metadata["team"] != "b" || named.Seq <= s.Seq {
		t.Errorf("got %+v", named)
	}
	if diff := cmp.Diff([]session.Session{named}, r.cloud.changed); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
	if unnamed := update(launch.Update{Name: new("")}); unnamed.Name != "" || unnamed.Metadata["team"] != "b" {
		t.Errorf("got %+v", unnamed)
	}

	_, err := r.Update(s.ID, launch.Update{Name: new("third"), Limits: launch.LimitChanges{Max: new(3 * time.Hour)}})
	if got := assertKind(t, err, fault.Validation); got.Details[0].Field != "maxDurationSeconds" {
		t.Errorf("got %+v", got.Details)
	}
	if listed, _ := r.Sessions.Get(s.ID); listed.Name != "" {
		t.Error("a refused update changed the name")
	}
	if _, err := r.Kill(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	_, err = r.Update(s.ID, launch.Update{Name: new("fourth")})
	assertKind(t, err, fault.Conflict)
	_, err = r.Update(uuid.New(), launch.Update{Name: new("fifth")})
	assertKind(t, err, fault.NotFound)
}

func TestLaunch_RefusesLimitsAboveHighest(t *testing.T) {
	r := newFixture(t, func(o *launch.Options) {
		o.LimitRules.Highest, o.Launcher = launch.Limits{Idle: time.Minute}, &recordingLauncher{}
	})
	request := byProfile()
	request.Override.IdleTimeoutSeconds = new(int32(3600))
	_, err := r.Launch(t.Context(), request)
	if got := assertKind(t, err, fault.Validation); got.Details[0].Field != "browser.idleTimeoutSeconds" || len(r.cloud.requests) > 0 {
		t.Errorf("got %+v after %d requests to the cloud", got.Details, len(r.cloud.requests))
	}
	r.cloud.profile.Settings.IdleTimeoutSeconds = new(int32(0))
	_, err = r.Launch(t.Context(), byProfile())
	if got := assertKind(t, err, fault.Validation); got.Details[0].Field != "browser.idleTimeoutSeconds" || len(r.cloud.ends()) != 1 {
		t.Errorf("got %+v, %d ends", got.Details, len(r.cloud.ends()))
	}
}

func TestHappened_ReportsWithKeyAndWithoutNUL(t *testing.T) {
	sessions, fake, key := session.NewStore(clock.System{}), &fakeCloud{}, session.NewOrganizationKey("a caller's")
	s := launch.New(launch.Options{Sessions: sessions, Reports: fake, Clock: clock.System{}})
	listed := sessions.Add(session.Session{ID: uuid.New(), OrganizationKey: key})
	sessions.End(listed.ID, session.End{At: time.Now(), Status: session.Killed})
	s.Happened(listed.ID, key, session.Event{Type: session.HandoverRequested, Reason: "a\x00b"})
	s.Happened(uuid.New(), key, session.Event{Type: session.HandoverRequested}) // not listed any more
	if len(fake.events) != 1 || fake.events[0].Reason != "a\uFFFDb" || fake.events[0].ID == uuid.Nil || fake.events[0].At.IsZero() {
		t.Fatalf("got %+v", fake.events)
	}
	if got := fake.eventSessions[0]; got.ID != listed.ID || got.Status != session.Killed || !got.OrganizationKey.Equal(key) {
		t.Errorf("got %+v", got)
	}
}
