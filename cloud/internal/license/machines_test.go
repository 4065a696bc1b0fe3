package license_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/shared/page"
)

var byFirstSeen = page.Request{Page: 1, Limit: 100, SortBy: "firstSeenAt"}

func (h *fixture) machines(f license.MachineFilter, r page.Request) page.Page[license.Machine] {
	h.t.Helper()
	found, err := h.Machines(h.t.Context(), h.org, f, r)
	if err != nil {
		h.t.Fatal(err)
	}
	return found
}

// onlyMachine returns the organization's only machine.
func (h *fixture) onlyMachine() license.Machine {
	h.t.Helper()
	found := h.machines(license.MachineFilter{}, byFirstSeen)
	if len(found.Items) != 1 || found.Total != 1 {
		h.t.Fatalf("machines %+v, want one", found)
	}
	return found.Items[0]
}

// reportOf returns the next heartbeat of a machine, with a report.
func (h *fixture) reportOf(machine string, m license.MachineReport) license.HeartbeatReport {
	h.machine = machine
	report := h.heartbeat()
	report.Machine = &m
	return report
}

// namedKey creates a key of the organization.
func (h *fixture) namedKey(org uuid.UUID, name string) uuid.UUID {
	h.t.Helper()
	key := id()
	h.exec(`INSERT INTO api_keys (id, organization_id, name, key_hash, prefix, last_four, created_at)
		VALUES ($1::uuid, $2, $3, sha256($1::uuid::text::bytea), 'svc_', 'abcd', now())`, key, org, name)
	return key
}

// silence makes the last report of a machine older.
func (h *fixture) silence(machine string, by time.Duration) {
	h.t.Helper()
	h.exec(`UPDATE license_machines SET heartbeat_at = heartbeat_at - $2::interval WHERE machine_id = $1`, machine, by.String())
}

func TestMachines_ShowFirstHeartbeatWithoutSessions(t *testing.T) {
	h := newFixture(t, 3)
	if found := h.machines(license.MachineFilter{}, byFirstSeen); found.Total != 0 || found.Items == nil {
		t.Errorf("before the first heartbeat: %+v", found)
	}
	key := h.namedKey(h.org, "fleet")
	h.mustHeartbeat(h.reportOf("worker-1", license.MachineReport{KeyID: key, HostName: "browsers-1", WorkerID: new("worker-1"),
		Version: "1.2.3", Contract: new("1.0.0"), PublicURL: new("https://edge.example/w/worker-1"), MaxSessions: new(8)}))
	got := h.onlyMachine()
	want := license.Machine{MachineID: "worker-1", HostName: new("browsers-1"), WorkerID: new("worker-1"), Version: new("1.2.3"),
		Contract: new("1.0.0"), PublicURL: new("https://edge.example/w/worker-1"), State: "online",
		MaxSessions: new(8), KeyID: &key, KeyName: new("fleet")}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(license.Machine{}, "FirstSeenAt", "LastSeenAt")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	h.mustHeartbeat(h.heartbeat())
	later := h.onlyMachine()
	if !later.FirstSeenAt.Equal(got.FirstSeenAt) || !later.LastSeenAt.After(got.LastSeenAt) || time.Since(later.LastSeenAt) > time.Minute {
		t.Errorf("seen from %v to %v, then from %v to %v", got.FirstSeenAt, got.LastSeenAt, later.FirstSeenAt, later.LastSeenAt)
	}
	if diff := cmp.Diff(got, later, cmpopts.IgnoreFields(license.Machine{}, "LastSeenAt")); diff != "" {
		t.Errorf("a heartbeat without a report changes the machine (-before +after):\n%s", diff)
	}
}

func TestMachines_CountSlots(t *testing.T) {
	h := newFixture(t, 10)
	first, second := h.start(), h.start()
	h.authorize()
	h.mustHeartbeat(h.heartbeat(first, second))
	h.mustEnd(second)
	if got := h.onlyMachine(); got.Running != 1 || got.Reserved != 1 || got.HostName != nil || got.State != "online" {
		t.Errorf("got %+v, want one running session and one reservation of a machine without a report", got)
	}
}

func TestMachines_State(t *testing.T) {
	h := newFixture(t, 3)
	steps := []struct {
		report  *license.MachineReport
		silence time.Duration
		want    license.MachineState
	}{
		{nil, 0, "online"},
		{&license.MachineReport{HostName: "a", Version: "1"}, 0, "online"},
		{&license.MachineReport{HostName: "a", Version: "1", Draining: true}, 0, "draining"},
		{nil, 0, "draining"},
		{&license.MachineReport{HostName: "a", Version: "1"}, 119 * time.Second, "online"},
		{nil, 2 * time.Minute, "offline"},
		{&license.MachineReport{HostName: "a", Version: "1", Draining: true}, 2 * time.Minute, "offline"},
		{nil, 0, "draining"},
	}
	for i, step := range steps {
		report := h.heartbeat()
		report.Machine = step.report
		h.mustHeartbeat(report)
		h.silence("worker-1", step.silence)
		if got := h.onlyMachine(); got.State != step.want {
			t.Errorf("step %d: %s, want %s", i, got.State, step.want)
		}
		for _, state := range []license.MachineState{"online", "draining", "offline"} {
			want := 0
			if state == step.want {
				want = 1
			}
			if got := h.machines(license.MachineFilter{State: &state}, byFirstSeen); got.Total != want || len(got.Items) != want {
				t.Errorf("step %d: %d machines are %s, want %d", i, got.Total, state, want)
			}
		}
	}
}

func TestMachines_UnchangedReportIsNotWritten(t *testing.T) {
	h := newFixture(t, 3)
	report := license.MachineReport{KeyID: id(), HostName: "a", Version: "1", MaxSessions: new(8)}
	written := func() time.Time {
		return query[time.Time](h, `SELECT changed_at FROM license_machine_info`)
	}
	h.mustHeartbeat(h.reportOf("worker-1", report))
	first := written()
	h.mustHeartbeat(h.reportOf("worker-1", report))
	if got := written(); !got.Equal(first) {
		t.Error("an unchanged report was written again")
	}
	for name, change := range map[string]func(m *license.MachineReport){
		"key": func(m *license.MachineReport) { m.KeyID = id() }, "host name": func(m *license.MachineReport) { m.HostName = "b" },
		"version": func(m *license.MachineReport) { m.Version = "2" }, "capacity": func(m *license.MachineReport) { m.MaxSessions = nil },
		"draining": func(m *license.MachineReport) { m.Draining = true }, "worker id": func(m *license.MachineReport) { m.WorkerID = new("a") },
		"contract":   func(m *license.MachineReport) { m.Contract = new("1.0.0") },
		"public URL": func(m *license.MachineReport) { m.PublicURL = new("https://edge.example") },
	} {
		before := written()
		change(&report)
		h.mustHeartbeat(h.reportOf("worker-1", report))
		if got := written(); !got.After(before) {
			t.Errorf("a changed %s was not written", name)
		}
		got := h.onlyMachine()
		want := license.Machine{MachineID: "worker-1", HostName: &report.HostName, Version: &report.Version, MaxSessions: report.MaxSessions,
			WorkerID: report.WorkerID, Contract: report.Contract, PublicURL: report.PublicURL, Draining: report.Draining, KeyID: &report.KeyID, State: got.State, FirstSeenAt: got.FirstSeenAt, LastSeenAt: got.LastSeenAt}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestMachines_FilterSortAndPage(t *testing.T) {
	h := newFixture(t, 3)
	key := h.namedKey(h.org, "fleet")
	for i, host := range []string{"delta", "alpha", "100%_x", "bravo"} {
		report := license.MachineReport{KeyID: id(), HostName: host, Version: "1"}
		if i%2 == 0 {
			report.KeyID = key
		}
		h.mustHeartbeat(h.reportOf(fmt.Sprintf("worker-%d", 4-i), report))
	}
	for name, test := range map[string]struct {
		filter license.MachineFilter
		page   page.Request
		want   []string
		total  int
	}{
		"by first report":         {license.MachineFilter{}, byFirstSeen, []string{"worker-4", "worker-3", "worker-2", "worker-1"}, 4},
		"by last report, latest":  {license.MachineFilter{}, page.Request{Page: 1, Limit: 2, SortBy: "lastHeartbeatAt", Desc: true}, []string{"worker-1", "worker-2"}, 4},
		"by id, the second page":  {license.MachineFilter{}, page.Request{Page: 2, Limit: 3, SortBy: "machineId"}, []string{"worker-4"}, 4},
		"by host name":            {license.MachineFilter{}, page.Request{Page: 1, Limit: 9, SortBy: "hostName"}, []string{"worker-2", "worker-3", "worker-1", "worker-4"}, 4},
		"with a key":              {license.MachineFilter{KeyID: &key}, byFirstSeen, []string{"worker-4", "worker-2"}, 2},
		"host name in capitals":   {license.MachineFilter{Search: new("ALPH")}, byFirstSeen, []string{"worker-3"}, 1},
		"part of the id":          {license.MachineFilter{Search: new("er-1")}, byFirstSeen, []string{"worker-1"}, 1},
		"characters of patterns":  {license.MachineFilter{Search: new("0%_")}, byFirstSeen, []string{"worker-2"}, 1},
		"a pattern is no pattern": {license.MachineFilter{Search: new("%elt%")}, byFirstSeen, nil, 0},
		"key, state and text":     {license.MachineFilter{KeyID: &key, State: new(license.MachineState("online")), Search: new("delta")}, byFirstSeen, []string{"worker-4"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got := h.machines(test.filter, test.page)
			var names []string
			for _, m := range got.Items {
				names = append(names, m.MachineID)
			}
			if !slices.Equal(names, test.want) || got.Total != test.total {
				t.Errorf("%v of %d, want %v of %d", names, got.Total, test.want, test.total)
			}
		})
	}
}

func TestMachines_ShowDuplicates(t *testing.T) {
	w := newProvenDuplicates(t)
	if got := w.onlyMachine(); !got.Duplicate {
		t.Errorf("two workers: %+v", got)
	}
	late := w.heartbeatOf(0, w.sessions[0])
	late.Machine = &license.MachineReport{HostName: "late", Version: "1"}
	w.mustHeartbeat(late)
	if got := w.onlyMachine(); got.HostName != nil {
		t.Errorf("the report of a superseded boot was stored: %+v", got)
	}
	w.advance("6m")
	if got := w.onlyMachine(); got.Duplicate {
		t.Errorf("one worker again: %+v", got)
	}
}

func TestMachines_OfOtherOrganizationsAreHidden(t *testing.T) {
	h := newFixture(t, 3)
	mine := h.org
	h.start()
	h.mustHeartbeat(h.reportOf("worker-1", license.MachineReport{KeyID: h.namedKey(mine, "fleet"), HostName: "mine", Version: "1", PublicURL: new("https://mine.example")}))
	h.newOrganization(3)
	if got := h.machines(license.MachineFilter{}, byFirstSeen); got.Total != 0 || len(got.Items) != 0 {
		t.Errorf("another organization sees %+v", got)
	}
	if got, err := h.Machine(t.Context(), h.org, "worker-1"); got != nil || err != nil {
		t.Errorf("another organization sees %+v, %v", got, err)
	}
	h.mustHeartbeat(h.reportOf("worker-1", license.MachineReport{KeyID: h.namedKey(mine, "theirs"), HostName: "other", Version: "2"}))
	if got := h.onlyMachine(); *got.HostName != "other" || got.Running != 0 || got.KeyName != nil || got.PublicURL != nil {
		t.Errorf("the machine with the same id has parts of another organization: %+v", got)
	}
	got, err := h.Machine(t.Context(), mine, "worker-1")
	if err != nil || got == nil || *got.HostName != "mine" || *got.KeyName != "fleet" {
		t.Errorf("the first organization sees %+v, %v", got, err)
	}
}

func TestMachines_DeletedWithOrganization(t *testing.T) {
	h := newFixture(t, 3)
	h.mustHeartbeat(h.reportOf("worker-1", license.MachineReport{HostName: "a", Version: "1"}))
	h.exec(`DELETE FROM license_machines WHERE organization_id = $1`, h.org)
	if n := query[int](h, `SELECT count(*) FROM license_machine_info`); n != 0 {
		t.Errorf("%d reports are left", n)
	}
	h.mustHeartbeat(h.reportOf("worker-1", license.MachineReport{HostName: "a", Version: "1"})) // after a long silence
	if got := h.onlyMachine(); got.HostName == nil {
		t.Errorf("got %+v", got)
	}
}

func TestSessionHistory_HasSlotAndRefusals(t *testing.T) {
	h := newFixture(t, 1)
	session := h.start()
	h.mustEnd(session)
	refused := id()
	h.start()
	if grant, err := h.Authorize(t.Context(), h.request(refused)); err != nil || grant.Allowed {
		t.Fatalf("grant %+v, %v", grant, err)
	}
	if err := h.Close(); err != nil { // writes the queued events
		t.Fatal(err)
	}
	h.Service = h.replica(h.db)
	got, err := h.SessionHistory(t.Context(), h.org, session)
	if err != nil || got.Slot == nil || got.Slot.SessionID != session || len(got.Refusals) != 0 {
		t.Fatalf("got %+v, %v", got, err)
	}
	var kinds []string
	for _, m := range got.Slot.Moments {
		kinds = append(kinds, m.Kind)
	}
	if want := []string{"reserved", "started", "released"}; !slices.Equal(kinds, want) {
		t.Errorf("moments %v, want %v", kinds, want)
	}
	got, err = h.SessionHistory(t.Context(), h.org, refused)
	if err != nil || got.Slot != nil || len(got.Refusals) != 1 || got.Refusals[0].Reason != "concurrency_limit" {
		t.Errorf("a refused session: %+v, %v", got, err)
	}
	h.newOrganization(1)
	if got, err := h.SessionHistory(t.Context(), h.org, session); err != nil || got.Slot != nil || got.Refusals != nil {
		t.Errorf("another organization sees %+v, %v", got, err)
	}
}
