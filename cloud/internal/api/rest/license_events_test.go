package rest_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
)

// beat returns the next heartbeat of a boot of the machine.
func (a *licenseAPI) beat(boot uuid.UUID, sessions ...uuid.UUID) cloudapi.Heartbeat {
	a.t.Helper()
	a.seq++
	if sessions == nil {
		sessions = []uuid.UUID{}
	}
	return decode[cloudapi.Heartbeat](a.t, a.do("POST", "/v1/license/sessions/heartbeat", a.worker, map[string]any{
		"machineId": "worker-1", "bootId": boot, "seq": a.seq, "sessions": sessions,
	}), 200)
}

func TestGetLicenseSlot_ShowsTimeline(t *testing.T) {
	a := newLicenseAPI(t)
	session := newID()
	grant := decode[cloudapi.Authorization](t, a.ask(session, "profileId", a.profile), 200)
	a.start(session).want(t, 201, "")
	a.beat(a.boot, session)
	a.do("DELETE", a.sessions()+"/"+session.String(), a.worker, map[string]any{"endReason": "idle"}).want(t, 200, "")
	address := "/v1/license/slots/" + grant.SlotId.String()
	for name, caller := range map[string]credential{"a worker": a.worker, "a member": a.caller} {
		got := decode[cloudapi.LicenseSlot](t, a.do("GET", address, caller, nil), 200)
		var what []string
		for _, m := range got.Timeline {
			what = append(what, string(m.What))
		}
		if diff := cmp.Diff([]string{"reserved", "started", "firstHeartbeat", "released"}, what); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if got.SlotId != *grant.SlotId || got.SessionId != session || *got.ProfileId != a.profile || got.MachineId != "worker-1" || got.BootId != a.boot ||
			got.State != "released" || *got.ReleaseReason != "ended" || *got.EndReason != "idle" || *got.EndStatus != "killed" || got.LeaseUntil != nil || got.Stale {
			t.Errorf("%s got %+v", name, got)
		}
	}
	a.do("GET", "/v1/license/slots/"+newID().String(), a.worker, nil).want(t, 404, "RESOURCE_NOT_FOUND")
	a.wrong("GET", "/v1/license/slots/x", a.worker, nil).want(t, 400, "VALIDATION_ERROR")
	a.do("GET", address, credential{}, nil).want(t, 401, "AUTHENTICATION_ERROR")
}

func (a *licenseAPI) events(query string, caller credential) []cloudapi.LicenseEvent {
	a.t.Helper()
	return decode[cloudapi.LicenseEventList](a.t, a.do("GET", "/v1/license/events"+query, caller, nil), 200).Items
}

func TestLicenseEvents_ShowRefusalReason(t *testing.T) {
	for name, refuse := range map[string]func(a *licenseAPI, session uuid.UUID){
		"a launch": func(a *licenseAPI, session uuid.UUID) {
			decode[cloudapi.Authorization](t, a.ask(session, "profileId", a.profile), 402)
		},
		"a start": func(a *licenseAPI, session uuid.UUID) { a.start(session).want(t, 402, "AUTHORIZATION_ERROR") },
	} {
		t.Run(name, func(t *testing.T) {
			a := newLicenseAPI(t)
			a.reserve()
			a.reserve()
			session := newID()
			refuse(a, session)
			a.wantRefusal(session)
		})
	}
}

// wantRefusal waits for the event and checks it as every caller that may read it.
func (a *licenseAPI) wantRefusal(session uuid.UUID) {
	t := a.t
	t.Helper()
	query := "?kind=refused&machineId=worker-1&sessionId=" + session.String()
	deadline := time.Now().Add(10 * time.Second)
	for len(a.events(query, a.worker)) == 0 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	for name, caller := range map[string]credential{"a worker": a.worker, "a member": a.caller} {
		got := a.events(query, caller)
		if len(got) != 1 {
			t.Fatalf("%s sees %d events", name, len(got))
		}
		if e := got[0]; *e.Reason != "concurrency_limit" || *e.Current != 2 || *e.Limit != 2 || *e.ProfileId != a.profile || e.Count != 1 || *e.BootId != a.boot || e.SlotId != nil || e.Previous != nil {
			t.Errorf("%s got %+v", name, e)
		}
	}
}

func TestLicenseEvents_FilterAndPage(t *testing.T) {
	a := newLicenseAPI(t)
	for minute, kind := range []string{"refused", "lapsed", "adopted"} {
		a.db.MustExec(`INSERT INTO license_events (organization_id, kind, at, last_at, machine_id) VALUES ($1, $2, $3, $3, 'worker-1')`,
			a.org, kind, time.Date(2026, 11, 21, 14, minute, 0, 0, time.UTC))
	}
	other := uuid.New()
	a.db.MustExec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Other', 'other', now())`, other)
	a.db.MustExec(`INSERT INTO license_events (organization_id, kind) VALUES ($1, 'refused')`, other)
	for query, want := range map[string][]string{
		"?to=2026-11-22T00:00:00Z":       {"adopted", "lapsed", "refused"},
		"?sortOrder=asc&limit=2":         {"refused", "lapsed"},
		"?sortBy=at&limit=2&page=2":      {"refused"},
		"?kind=lapsed":                   {"lapsed"},
		"?machineId=worker-2":            {},
		"?from=2026-11-21T14:01:00Z":     {"adopted", "lapsed"},
		"?to=2026-11-21T14:01:00Z":       {"refused"},
		"?sessionId=" + newID().String(): {},
	} {
		got := []string{}
		for _, e := range a.events(query, a.worker) {
			got = append(got, string(e.Kind))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	for _, query := range []string{"?kind=x", "?sortBy=kind", "?from=yesterday", "?machineId=%20", "?org=1"} {
		a.wrong("GET", "/v1/license/events"+query, a.worker, nil).want(t, 400, "VALIDATION_ERROR")
	}
	a.do("GET", "/v1/license/events", credential{}, nil).want(t, 401, "AUTHENTICATION_ERROR")
}

func TestLicenseEvents_FlagDuplicateMachineID(t *testing.T) {
	a := newLicenseAPI(t)
	session := a.reserve()
	a.start(session).want(t, 201, "")
	a.beat(a.boot, session)
	newer := newID()
	a.beat(newer)
	a.beat(a.boot, session)
	if got := a.overview(); len(got.DuplicateMachines) != 0 {
		t.Errorf("flagged too early: %+v", got.DuplicateMachines)
	}
	a.db.MustExec(`UPDATE license_superseded_boots SET since = since - interval '30 seconds'`)
	if got := a.beat(a.boot, session); !got.Applied || len(got.Accepted) != 1 {
		t.Errorf("the older boot's heartbeat: %+v", got)
	}
	got := a.overview()
	if len(got.DuplicateMachines) != 1 || len(got.Sessions) != 1 {
		t.Fatalf("got %+v", got)
	}
	if d := got.DuplicateMachines[0]; d.MachineId != "worker-1" || cmp.Diff([]uuid.UUID{newer, a.boot}, d.BootIds) != "" || d.Since.IsZero() {
		t.Errorf("flagged: %+v", d)
	}
	if got := a.events("?kind=machineDuplicated", a.worker); len(got) != 1 || *got[0].BootId != a.boot {
		t.Errorf("events: %+v", got)
	}
}
