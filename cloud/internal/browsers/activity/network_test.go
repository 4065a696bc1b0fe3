package activity

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
)

func TestSetNetwork_OnlySessionOfOrganization(t *testing.T) {
	f := newFixture(t)
	s := f.start(noon)
	theirs := s // another organization can have a session with this id
	theirs.OrganizationID = f.organization()
	f.started(s, theirs)
	network := Network{Connections: 3, BytesSent: 4210, BytesReceived: 91822, Denied: 2, Hosts: Hosts{
		{Host: "example.com", Connections: 3, BytesSent: 4210, BytesReceived: 91822, Denied: []Denial{}, Proxy: new("proxy.example:8080")},
		{Host: "t.ads.example", Denied: []Denial{{Level: "organization", Rule: "connect.deny: *.ads.example", Count: 2}}},
	}}
	for range 2 { // the report can be repeated
		if err := f.feed.SetNetwork(t.Context(), f.org, s.SessionID, network); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.feed.SetNetwork(t.Context(), f.org, newID(), network); err != nil {
		t.Errorf("a failed launch: %v", err)
	}
	got, err := f.feed.Get(t.Context(), f.org, s.SessionID)
	if err != nil || *got.Connections != 3 || *got.BytesSent != 4210 || *got.BytesReceived != 91822 || *got.Denied != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
	if diff := cmp.Diff(network.Hosts, got.Hosts); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	if other, err := f.feed.Get(t.Context(), theirs.OrganizationID, s.SessionID); err != nil || other.BytesSent != nil || other.Hosts != nil {
		t.Errorf("the session of another organization: %+v, %v", other, err)
	}
}

func TestUsage_SumsStartedSessions(t *testing.T) {
	f := newFixture(t)
	before, first, running, after := f.start(noon.Add(-time.Second)), f.start(noon), f.start(noon.Add(time.Hour)), f.start(noon.Add(2*time.Hour))
	theirs := f.start(noon)
	theirs.OrganizationID = f.organization()
	f.started(before, first, running, after, theirs)
	f.ended(first.end(noon.Add(30*time.Minute)), theirs.end(noon.Add(time.Minute)))
	for _, s := range []Start{before, first, after, theirs} {
		if err := f.feed.SetNetwork(t.Context(), s.OrganizationID, s.SessionID, Network{BytesSent: 10, BytesReceived: 1 << 50}); err != nil {
			t.Fatal(err)
		}
	}
	f.clock.Advance(75 * time.Minute)
	got, err := f.feed.Usage(t.Context(), f.org, noon, noon.Add(2*time.Hour))
	if want := (Usage{BytesSent: 10, BytesReceived: 1 << 50, BrowserHours: .75}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if got, err := f.feed.Usage(t.Context(), f.org, noon.Add(time.Hour), noon); err != nil || got != (Usage{}) {
		t.Errorf("an empty time: %+v, %v", got, err)
	}
}

func TestUsage_ReadsRangeOfIndex(t *testing.T) {
	dsn := dbtest.NewDSN(t)
	all := dbtest.Open(t, dsn, pg.Options{Role: pg.AllRole})
	f := &fixture{t: t, clock: clock.NewFake(noon), feed: &Feed{DB: all}}
	for range 20 {
		f.org = f.organization()
	}
	all.MustExecContext(t.Context(), `INSERT INTO activity_sessions (id, organization_id, profile_id, profile_name, machine_id, launch_id, browser_version, status, started_at, ended_at)
		SELECT gen_random_uuid(), o.id, gen_random_uuid(), 'Test', 'worker-1', gen_random_uuid(), 156, 'killed', $1::timestamptz + make_interval(mins => 10 * i), $1::timestamptz + make_interval(mins => 10 * i + 1)
		FROM organizations o CROSS JOIN generate_series(1, 2000) i`, noon)
	dbtest.Open(t, dsn, pg.Options{}).MustExecContext(t.Context(), `ANALYZE activity_sessions`)
	var lines []string
	if err := all.SelectContext(t.Context(), &lines, `EXPLAIN `+usageSQL, f.org, noon, noon.Add(24*time.Hour), noon); err != nil {
		t.Fatal(err)
	}
	if plan := strings.Join(lines, "\n"); strings.Contains(plan, "Seq Scan") || !strings.Contains(plan, "Index Cond") || !strings.Contains(plan, "started_at >=") {
		t.Errorf("the plan is\n%s", plan)
	}
}

func TestUsageByDay_SumsByProfileAndKey(t *testing.T) {
	f := newFixture(t)
	key := f.key(f.org, "fleet")
	first, second, other, nextDay := f.start(noon), f.start(noon.Add(time.Hour)), f.start(noon), f.start(noon.Add(12*time.Hour))
	for _, s := range []*Start{&first, &second, &nextDay} { // of different profiles that do not exist any more
		s.KeyID = key
	}
	other.ProfileName = "Other"
	theirs := f.start(noon)
	theirs.OrganizationID = f.organization()
	f.started(first, second, other, nextDay, theirs)
	for _, s := range []Start{first, second, other, nextDay, theirs} {
		f.ended(s.end(s.StartedAt.Add(30 * time.Minute)))
		if err := f.feed.SetNetwork(t.Context(), s.OrganizationID, s.SessionID, Network{BytesSent: 10, BytesReceived: 100, Denied: 1}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := f.feed.UsageByDay(t.Context(), f.org, noon, noon.Add(24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	want := []UsageDay{
		{Day: "2026-11-22", ProfileName: "Checkout", KeyID: &key, KeyName: new("fleet"), Sessions: 1, Denied: 1, Usage: Usage{BytesSent: 10, BytesReceived: 100, BrowserHours: .5}},
		{Day: "2026-11-21", ProfileName: "Checkout", KeyID: &key, KeyName: new("fleet"), Sessions: 2, Denied: 2, Usage: Usage{BytesSent: 20, BytesReceived: 200, BrowserHours: 1}},
		{Day: "2026-11-21", ProfileName: "Other", Sessions: 1, Denied: 1, Usage: Usage{BytesSent: 10, BytesReceived: 100, BrowserHours: .5}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
