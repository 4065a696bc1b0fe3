package rest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/browsers/activity"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/gen/cloudapi"
)

// beatOf sends a heartbeat of a machine with a report.
func (a *licenseAPI) beatOf(machine string, report map[string]any) reply {
	a.t.Helper()
	a.seq++
	return a.do("POST", "/v1/license/sessions/heartbeat", a.worker, map[string]any{
		"machineId": machine, "bootId": a.boot, "seq": a.seq, "sessions": []uuid.UUID{}, "machine": report,
	})
}

func (a *licenseAPI) machines(query string, caller credential) cloudapi.MachineList {
	a.t.Helper()
	return decode[cloudapi.MachineList](a.t, a.do("GET", "/v1/machines"+query, caller, nil), 200)
}

func TestListMachines_ShowsReports(t *testing.T) {
	a := newLicenseAPI(t)
	if got := a.machines("", a.caller); len(got.Items) != 0 || got.Pagination.Total != 0 {
		t.Errorf("before the first heartbeat: %+v", got)
	}
	a.beatOf("worker-1", map[string]any{"hostName": "browsers-1", "workerId": "worker-1", "version": "1.2.3",
		"contractVersion": "1.0.0", "publicUrl": "https://edge.example:8443/w/worker-1", "capacity": 8, "draining": false}).want(t, 200, "")
	a.beatOf("worker-2", map[string]any{"hostName": "browsers-2", "version": "1.2.4", "draining": true}).want(t, 200, "")
	a.reserve()
	for name, caller := range map[string]credential{"a worker": a.worker, "a member": a.caller} {
		got := a.machines("?sortOrder=asc", caller)
		if len(got.Items) != 2 {
			t.Fatalf("%s sees %+v", name, got)
		}
		first := got.Items[0]
		want := cloudapi.Machine{MachineId: "worker-1", HostName: new("browsers-1"), Version: new("1.2.3"), State: "online", Capacity: new(int32(8)),
			WorkerId: new("worker-1"), ContractVersion: new("1.0.0"), PublicUrl: new("https://edge.example:8443/w/worker-1"),
			ReservedSlots: 1, KeyId: first.KeyId, FirstSeenAt: first.FirstSeenAt, LastHeartbeatAt: first.LastHeartbeatAt}
		if diff := cmp.Diff(want, first); diff != "" || first.KeyId == nil {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if second := got.Items[1]; second.State != "draining" || !second.Draining || second.Capacity != nil || second.PublicUrl != nil {
			t.Errorf("%s sees the second machine as %+v", name, second)
		}
	}
	for query, want := range map[string]string{
		"?state=draining": "worker-2", "?search=BROWSERS-1": "worker-1", "?limit=1": "worker-2", "?sortBy=hostName&limit=1&page=2": "worker-1",
	} {
		if got := a.machines(query, a.caller); len(got.Items) != 1 || got.Items[0].MachineId != want {
			t.Errorf("%s: %+v, want %s", query, got.Items, want)
		}
	}
	for _, query := range []string{"?state=offline", "?keyId=" + newID().String(), "?search=nothing"} {
		if got := a.machines(query, a.caller); len(got.Items) != 0 {
			t.Errorf("%s: %+v", query, got.Items)
		}
	}
	if got := a.machines("", bearer(a.organization().String())); len(got.Items) != 0 {
		t.Errorf("another organization sees %+v", got.Items)
	}
}

func TestUpdateMachine_NamesMachine(t *testing.T) {
	a := newLicenseAPI(t)
	a.beatOf("worker-1", map[string]any{"hostName": "browsers-1", "version": "1.2.3", "draining": false}).want(t, 200, "")
	for _, name := range []*string{new("Rack 4"), nil} {
		got := decode[cloudapi.Machine](t, a.do("PATCH", "/v1/machines/worker-1", a.caller, map[string]any{"name": name}), 200)
		if diff := cmp.Diff(name, got.Name); diff != "" || got.MachineId != "worker-1" || *got.HostName != "browsers-1" {
			t.Errorf("updated %+v (-want +got):\n%s", got, diff)
		}
		if found := a.machines("?search=rack", a.caller); (len(found.Items) == 1) != (name != nil) {
			t.Errorf("named %v, the search finds %+v", name, found.Items)
		}
		a.beatOf("worker-1", map[string]any{"hostName": "browsers-1", "version": "1.2.4", "draining": false}).want(t, 200, "")
		if diff := cmp.Diff(name, a.machines("", a.caller).Items[0].Name); diff != "" {
			t.Errorf("after a heartbeat (-want +got):\n%s", diff)
		}
	}
	a.do("PATCH", "/v1/machines/worker-2", a.caller, map[string]any{"name": "x"}).want(t, 404, "RESOURCE_NOT_FOUND")
	a.do("PATCH", "/v1/machines/worker-1", bearer(a.organization().String()), map[string]any{"name": "x"}).want(t, 404, "RESOURCE_NOT_FOUND")
	refusal := a.wrong("PATCH", "/v1/machines/worker-1", a.caller, map[string]any{"name": " ", "hostName": "x"})
	if diff := cmp.Diff([]string{"hostName UNRECOGNIZED_KEY", "name INVALID_PATTERN"}, refusal.fields); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}

func TestDeleteMachine_OnlyOffline(t *testing.T) {
	a := newLicenseAPI(t)
	a.beatOf("worker-1", map[string]any{"hostName": "browsers-1", "version": "1.2.3", "draining": false}).want(t, 200, "")
	a.reserve()
	remove := func(caller credential) reply { return a.do("DELETE", "/v1/machines/worker-1", caller, nil) }
	remove(a.caller).want(t, 409, "RESOURCE_CONFLICT")
	a.db.MustExec(`UPDATE license_machines SET heartbeat_at = now() - interval '3 minutes'`)
	remove(a.caller).want(t, 409, "RESOURCE_CONFLICT") // its slot
	a.db.MustExec(`UPDATE license_slots SET state = 'released', released_at = now(), release_reason = 'lapsed'`)
	remove(bearer(a.organization().String())).want(t, 404, "RESOURCE_NOT_FOUND")
	remove(a.caller).want(t, 200, "")
	remove(a.caller).want(t, 404, "RESOURCE_NOT_FOUND")
	if got := a.machines("", a.caller); len(got.Items) != 0 {
		t.Errorf("after the deletion: %+v", got.Items)
	}
	a.beatOf("worker-1", map[string]any{"hostName": "browsers-1", "version": "1.2.3", "draining": false}).want(t, 200, "")
	if got := a.machines("", a.caller); len(got.Items) != 1 {
		t.Errorf("after another report: %+v", got.Items)
	}
}

func TestListMachines_Refusals(t *testing.T) {
	a := newLicenseAPI(t)
	a.do("GET", "/v1/machines", credential{}, nil).want(t, 401, "AUTHENTICATION_ERROR")
	for query, field := range map[string]string{
		"?state=running": "state INVALID_ENUM_VALUE", "?keyId=x": "keyId INVALID_FORMAT", "?search=": "search TOO_SHORT",
		"?sortBy=name": "sortBy INVALID_ENUM_VALUE", "?host=a": "host UNRECOGNIZED_KEY",
	} {
		r := a.wrong("GET", "/v1/machines"+query, a.caller, nil)
		r.want(t, 400, "VALIDATION_ERROR")
		if diff := cmp.Diff([]string{field}, r.fields); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	r := a.wrong("POST", "/v1/license/sessions/heartbeat", a.worker, map[string]any{
		"machineId": "worker-1", "bootId": a.boot, "seq": 1, "sessions": []uuid.UUID{},
		"machine": map[string]any{"hostName": "", "version": "1", "capacity": 0, "cpu": 2, "publicUrl": "javascript:alert(1)"},
	})
	r.want(t, 400, "VALIDATION_ERROR")
	want := []string{"machine.capacity TOO_SMALL", "machine.cpu UNRECOGNIZED_KEY", "machine.hostName TOO_SHORT", "machine.publicUrl INVALID_PATTERN", "machine.draining REQUIRED"}
	if diff := cmp.Diff(want, r.fields); diff != "" {
		t.Errorf("a heartbeat (-want +got):\n%s", diff)
	}
}

func TestHeartbeat_ChecksPublicURL(t *testing.T) {
	a := newLicenseAPI(t)
	for address, code := range map[string]string{
		"http://localhost:3000": "", "https://[2001:db8::1]:8443/w/worker-1": "", "https://edge.example/a%20b": "",
		"": "INVALID_PATTERN", "edge.example": "INVALID_PATTERN", "ftp://edge.example": "INVALID_PATTERN", "https://user:secret@edge.example": "INVALID_PATTERN",
		"https://edge.example/?token=1": "INVALID_PATTERN", "https://edge.example/#a": "INVALID_PATTERN", "https://edge.example/$(id)": "INVALID_PATTERN",
		"https://edge.example/" + strings.Repeat("a", 2048): "TOO_LONG",
	} {
		body := map[string]any{
			"machineId": "worker-1", "bootId": a.boot, "seq": 1, "sessions": []uuid.UUID{},
			"machine": map[string]any{"hostName": "a", "version": "1", "draining": false, "publicUrl": address},
		}
		if code == "" {
			a.do("POST", "/v1/license/sessions/heartbeat", a.worker, body).want(t, 200, "")
			continue
		}
		r := a.wrong("POST", "/v1/license/sessions/heartbeat", a.worker, body)
		r.want(t, 400, "VALIDATION_ERROR")
		if diff := cmp.Diff([]string{"machine.publicUrl " + code}, r.fields); diff != "" {
			t.Errorf("%.60s (-want +got):\n%s", address, diff)
		}
	}
}

func TestGetSession_HasMachineSlotAndTimeline(t *testing.T) {
	a := newLicenseAPI(t)
	session := a.reserve()
	a.start(session).want(t, 201, "")
	a.record(session, false)
	a.beatOf("worker-2", map[string]any{"hostName": "other", "version": "1", "capacity": nil, "draining": false}).want(t, 200, "")
	a.beat(a.boot, session)
	address := "/v1/sessions/" + session.String()
	got := decode[cloudapi.SessionDetail](t, a.do("GET", address, a.caller, nil), 200)
	if got.Status != "running" || got.Slot == nil || got.Slot.State != "running" || got.Slot.LeaseUntil == nil || got.Machine == nil ||
		got.Machine.MachineId != "worker-1" || got.Machine.Sessions != 1 || got.EndReason != nil || got.KeyName != nil {
		t.Errorf("running: %+v", got)
	}
	a.do("DELETE", a.sessions()+"/"+session.String(), a.worker, map[string]any{"endReason": "idle"}).want(t, 200, "")
	a.record(session, true)
	got = decode[cloudapi.SessionDetail](t, a.do("GET", address, a.caller, nil), 200)
	if got.Status != "killed" || *got.EndReason != "idle" || got.Slot.State != "released" || *got.Slot.ReleaseReason != "ended" {
		t.Errorf("ended: %+v", got)
	}
	var what []string
	for _, m := range got.Timeline {
		reason := ""
		if m.Reason != nil {
			reason = " " + *m.Reason
		}
		what = append(what, string(m.What)+reason)
	}
	if diff := cmp.Diff([]string{"reserved", "started", "firstHeartbeat", "released", "ended idle"}, what); diff != "" {
		t.Errorf("timeline (-want +got):\n%s", diff)
	}
}

// record writes the start or the end of a session to the feed.
func (a *licenseAPI) record(session uuid.UUID, ended bool) {
	a.t.Helper()
	now := time.Now()
	must(a.t, pg.InTx(a.t.Context(), a.db, func(tx *sqlx.Tx) error {
		if ended {
			return a.feed.Ended(a.t.Context(), tx, []activity.End{{
				SessionID: session, OrganizationID: a.org, Status: "killed", EndReason: "idle", EndedAt: now}})
		}
		return a.feed.Started(a.t.Context(), tx, []activity.Start{{
			SessionID: session, OrganizationID: a.org, ProfileID: a.profile, ProfileName: "Checkout", MachineID: "worker-1",
			LaunchID: newID(), BrowserVersion: 156, StartedAt: now}})
	}))
}

func TestGetSession_WithoutSlotAndMachine(t *testing.T) {
	a := newLicenseAPI(t)
	session := newID()
	a.record(session, false)
	a.record(session, true)
	got := decode[cloudapi.SessionDetail](t, a.do("GET", "/v1/sessions/"+session.String(), a.caller, nil), 200)
	if got.Machine != nil || got.Slot != nil || len(got.Timeline) != 2 || got.Timeline[0].What != "started" || got.Timeline[1].What != "ended" {
		t.Errorf("got %+v", got)
	}
}

func TestGetSession_Refusals(t *testing.T) {
	a := newLicenseAPI(t)
	session := newID()
	a.record(session, false)
	address := "/v1/sessions/" + session.String()
	a.do("GET", address, bearer(a.organization().String()), nil).want(t, 404, "RESOURCE_NOT_FOUND")
	a.do("GET", "/v1/sessions/"+newID().String(), a.caller, nil).want(t, 404, "RESOURCE_NOT_FOUND")
	a.wrong("GET", "/v1/sessions/x", a.caller, nil).want(t, 400, "VALIDATION_ERROR")
	a.do("GET", address, credential{}, nil).want(t, 401, "AUTHENTICATION_ERROR")
	a.do("GET", address, a.worker, nil).want(t, 401, "AUTHENTICATION_ERROR")
}

func TestListSessions_ByKey(t *testing.T) {
	a := newLicenseAPI(t)
	key, session := newID(), newID()
	a.record(newID(), false)
	a.record(session, false)
	_, err := a.db.Exec(`UPDATE activity_sessions SET key_id = $1 WHERE id = $2`, key, session)
	must(t, err)
	list := decode[cloudapi.SessionList](t, a.do("GET", "/v1/sessions?keyId="+key.String(), a.caller, nil), 200)
	if len(list.Items) != 1 || list.Items[0].Id != session || *list.Items[0].KeyId != key {
		t.Errorf("got %+v", list.Items)
	}
	a.wrong("GET", "/v1/sessions?keyId=x", a.caller, nil).want(t, 400, "VALIDATION_ERROR")
}
