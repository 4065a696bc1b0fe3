package app

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/browsers/activity"
	"github.com/browser-svc/svc/cloud/internal/browsers/profile"
	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
)

// TestObserver_ResumedSessionKeepsEphemeralProfile releases the slot of a launch by
// spec. The worker then reports the session as running and as ended.
func TestObserver_ResumedSessionKeepsEphemeralProfile(t *testing.T) {
	h := newTestEnv(t, nil)
	org, machine, boot, session := uuid.New(), "worker-1", uuid.New(), uuid.New()
	h.all.MustExec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Engines', $2, now())`, org, org.String())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(pg.InTx(t.Context(), h.all, func(tx *sqlx.Tx) error {
		return provisioner{h.parts.plans, h.parts.licenses, clock.System{}}.Provision(t.Context(), tx, org)
	}))
	grant, err := h.parts.licenses.Authorize(t.Context(), license.Request{
		OrgID: org, KeyID: uuid.New(), MachineID: machine, BootID: boot, SessionID: session,
		NewProfile: func(ctx context.Context, tx *sqlx.Tx) (uuid.UUID, error) {
			return h.parts.profiles.CreateEphemeral(ctx, tx, org, profile.Draft{})
		},
	})
	must(err)
	if !grant.Allowed {
		t.Fatalf("got %+v", grant)
	}
	start := license.StartReport{
		OrgID: org, ProfileID: *grant.ProfileID, SessionID: session, MachineID: machine, BootID: boot, Seq: 1,
		LaunchID: uuid.New(), BrowserVersion: 156, StartedAt: time.Now(),
		Recording: &license.Recording{Events: true, Trace: true, URL: "https://edge.example/player", Viewer: "https://edge.example/viewer"},
		Labels:    license.Labels{Name: "Nightly", Metadata: map[string]string{"team": "x"}},
	}
	counted := func(want int) {
		t.Helper()
		stats, err := h.parts.profiles.Stats(t.Context(), org)
		if err != nil || stats.EphemeralProfiles != want {
			t.Errorf("%d profiles, %v; want %d", stats.EphemeralProfiles, err, want)
		}
	}
	lapse := func() {
		t.Helper()
		h.all.MustExec(`UPDATE license_slots SET lease_until = now() WHERE organization_id = $1`, org)
		got, err := h.parts.licenses.Reclaim(t.Context(), org)
		if err != nil || got.Released != 1 {
			t.Fatalf("reclaimed %+v, %v", got, err)
		}
		counted(0)
	}
	counted(1)
	lapse()
	_, err = h.parts.licenses.Start(t.Context(), start)
	must(err)
	counted(1)
	lapse()
	beat, err := h.parts.licenses.Heartbeat(t.Context(), license.HeartbeatReport{
		OrgID: org, MachineID: machine, BootID: boot, Seq: 2, Sessions: []uuid.UUID{session},
	})
	if err != nil || len(beat.Accepted) != 1 {
		t.Fatalf("got %+v, %v", beat, err)
	}
	counted(1)
	_, err = h.parts.profiles.Config(t.Context(), org, *grant.ProfileID)
	must(err)
	lapse()
	_, err = h.parts.licenses.End(t.Context(), license.EndReport{OrgID: org, ProfileID: *grant.ProfileID, SessionID: session})
	must(err)
	stored, err := (&activity.Feed{DB: h.all, Clock: clock.System{}}).Get(t.Context(), org, session)
	if err != nil || stored.Recording == nil || *stored.Recording != activity.Recording(*start.Recording) {
		t.Errorf("got the recording %+v, %v", stored.Recording, err)
	}
	if stored.Name == nil || *stored.Name != "Nightly" || stored.Metadata["team"] != "x" {
		t.Errorf("got the name %v and the labels %v", stored.Name, stored.Metadata)
	}
	var left int
	must(h.all.Get(&left, `SELECT count(*) FROM profiles WHERE organization_id = $1`, org))
	if left != 0 {
		t.Error("the profile still exists after the session's end")
	}
}
