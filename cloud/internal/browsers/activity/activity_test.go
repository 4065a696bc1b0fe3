package activity

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

type fixture struct {
	t     *testing.T
	feed  *Feed
	clock *clock.Fake
	org   uuid.UUID
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	fake := clock.NewFake(noon)
	f := &fixture{t: t, clock: fake, feed: &Feed{DB: dbtest.New(t), Clock: fake}}
	f.org = f.organization()
	return f
}

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

func (f *fixture) organization() uuid.UUID {
	f.t.Helper()
	id := newID()
	_, err := f.feed.DB.ExecContext(f.t.Context(),
		`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Test', $2, now())`, id, id.String())
	if err != nil {
		f.t.Fatal(err)
	}
	return id
}

func (f *fixture) start(startedAt time.Time) Start {
	return Start{SessionID: newID(), OrganizationID: f.org, ProfileID: newID(), ProfileName: "Checkout",
		MachineID: "worker-1", LaunchID: newID(), BrowserVersion: 156, StartedAt: startedAt}
}

func (f *fixture) started(starts ...Start) {
	f.t.Helper()
	f.inTx(func(tx *sqlx.Tx) error { return f.feed.Started(f.t.Context(), tx, starts) })
}

func (f *fixture) ended(ends ...End) {
	f.t.Helper()
	f.inTx(func(tx *sqlx.Tx) error { return f.feed.Ended(f.t.Context(), tx, ends) })
}

func (f *fixture) inTx(fn func(tx *sqlx.Tx) error) {
	f.t.Helper()
	if err := pg.InTx(f.t.Context(), f.feed.DB, fn); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) list(filter Filter, req page.Request) Listing {
	f.t.Helper()
	found, err := f.feed.List(f.t.Context(), f.org, filter, req)
	if err != nil {
		f.t.Fatal(err)
	}
	return found
}

var newest = page.Request{Page: 1, Limit: 20, SortBy: "startedAt", Desc: true}

func (s Start) end(endedAt time.Time) End {
	return End{SessionID: s.SessionID, OrganizationID: s.OrganizationID, Status: "killed", EndReason: "idle", EndedAt: endedAt}
}

func (s Start) running(duration time.Duration) Session {
	return Session{ID: s.SessionID, ProfileID: s.ProfileID, ProfileName: s.ProfileName, MachineID: s.MachineID,
		LaunchID: s.LaunchID, BrowserVersion: s.BrowserVersion, Status: "running", StartedAt: s.StartedAt, Duration: duration}
}

func TestFeed_SessionStartsAndEnds(t *testing.T) {
	f := newFixture(t)
	s := f.start(noon)
	f.started(s)
	f.clock.Advance(90 * time.Second)
	if diff := cmp.Diff([]Session{s.running(90 * time.Second)}, f.list(Filter{}, newest).Items); diff != "" {
		t.Errorf("running (-want +got):\n%s", diff)
	}
	endedAt := noon.Add(30 * time.Second)
	f.ended(s.end(endedAt))
	f.clock.Advance(time.Hour)
	want := s.running(30 * time.Second)
	want.Status, want.EndReason, want.EndedAt = "killed", new("idle"), &endedAt
	if diff := cmp.Diff([]Session{want}, f.list(Filter{}, newest).Items); diff != "" {
		t.Errorf("ended (-want +got):\n%s", diff)
	}
}

func TestFeed_RowsFollowReports(t *testing.T) {
	later := noon.Add(time.Minute)
	for name, test := range map[string]struct {
		report func(f *fixture, s Start)
		rows   int
		status string
		reason string
		name   string
	}{
		"the same start twice is one row": {
			report: func(f *fixture, s Start) { f.started(s, s); f.started(s) }, rows: 1, status: "running", name: "Checkout"},
		"an end without a start leaves no row": {
			report: func(f *fixture, s Start) { f.ended(s.end(later)) }},
		"a start after the end runs again, under the first name": {
			report: func(f *fixture, s Start) {
				f.started(s)
				f.ended(s.end(later))
				s.ProfileName = ""
				f.started(s)
			}, rows: 1, status: "running", name: "Checkout"},
		"a restored session runs again": {
			report: func(f *fixture, s Start) {
				f.started(s)
				f.ended(s.end(later))
				f.started(Start{SessionID: s.SessionID, OrganizationID: s.OrganizationID})
			}, rows: 1, status: "running", name: "Checkout"},
		"a restored session that was never reported has no row": {
			report: func(f *fixture, s Start) { f.started(Start{SessionID: s.SessionID, OrganizationID: s.OrganizationID}) }},
		"the last end stands": {
			report: func(f *fixture, s Start) {
				f.started(s)
				f.ended(s.end(later))
				f.ended(End{SessionID: s.SessionID, OrganizationID: s.OrganizationID, Status: "exited", EndReason: "crash", EndedAt: later})
			}, rows: 1, status: "exited", reason: "crash", name: "Checkout"},
		"an end before the start ends at the start": {
			report: func(f *fixture, s Start) { f.started(s); f.ended(s.end(noon.Add(-time.Hour))) },
			rows:   1, status: "killed", reason: "idle", name: "Checkout"},
		"a later report replaces the labels": {
			report: func(f *fixture, s Start) {
				s.Labels = &Labels{"first", Metadata{"team": "x"}}
				f.started(s)
				s.Labels, s.ProfileName = &Labels{"second", Metadata{"team": "y"}}, "Other"
				f.started(s)
				restored := s
				restored.Labels = nil
				f.ended(s.end(later))
				f.started(restored)
				found := f.list(Filter{Name: new("second"), Metadata: []Metadata{{"team": "y"}}}, newest)
				s.Labels = &Labels{}
				f.started(s)
				last := f.list(Filter{}, newest).Items[0]
				if found.Total != 1 || last.Name != nil || last.Metadata != nil {
					f.t.Errorf("got %+v, then %+v", found.Items, last)
				}
			}, rows: 1, status: "running", name: "Checkout"},
		"another organization's report changes nothing": {
			report: func(f *fixture, s Start) {
				f.started(s)
				foreign := s
				foreign.OrganizationID = f.organization()
				f.ended(s.end(later))
				foreign.ProfileName = "Stolen"
				f.started(foreign, Start{SessionID: s.SessionID, OrganizationID: foreign.OrganizationID})
				foreignEnd := foreign.end(later)
				foreignEnd.Status = "exited"
				f.ended(foreignEnd)
			}, rows: 1, status: "killed", reason: "idle", name: "Checkout"},
		"no reports are no error": {
			report: func(f *fixture, s Start) { f.started(); f.ended() }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			test.report(f, f.start(noon))
			found := f.list(Filter{}, newest)
			if found.Total != test.rows || len(found.Items) != test.rows {
				t.Fatalf("%d rows of %d; want %d", len(found.Items), found.Total, test.rows)
			}
			if test.rows == 0 {
				return
			}
			got := found.Items[0]
			reason := ""
			if got.EndReason != nil {
				reason = *got.EndReason
			}
			if got.Status != test.status || reason != test.reason || got.ProfileName != test.name || got.Duration < 0 {
				t.Errorf("got %+v; want %s %q %q", got, test.status, test.reason, test.name)
			}
		})
	}
}

func TestList_Filters(t *testing.T) {
	f := newFixture(t)
	a, b, c := f.start(noon), f.start(noon.Add(time.Minute)), f.start(noon.Add(2*time.Minute))
	b.MachineID, c.ProfileID, c.KeyID = "worker-2", a.ProfileID, newID()
	a.Labels, b.Labels = &Labels{"nightly", Metadata{"team": "x", "run": "1"}}, &Labels{"nightly", Metadata{"team": "x", "run": "2"}}
	foreign := f.start(noon)
	foreign.OrganizationID, foreign.Labels = f.organization(), a.Labels
	f.started(foreign)
	f.started(a, b, c)
	f.ended(b.end(noon.Add(time.Hour)))
	for name, test := range map[string]struct {
		filter Filter
		want   []uuid.UUID
	}{
		"nothing":  {Filter{}, []uuid.UUID{c.SessionID, b.SessionID, a.SessionID}},
		"status":   {Filter{Status: new("killed")}, []uuid.UUID{b.SessionID}},
		"profile":  {Filter{ProfileID: &a.ProfileID}, []uuid.UUID{c.SessionID, a.SessionID}},
		"machine":  {Filter{MachineID: new("worker-2")}, []uuid.UUID{b.SessionID}},
		"key":      {Filter{KeyID: &c.KeyID}, []uuid.UUID{c.SessionID}},
		"from":     {Filter{From: &b.StartedAt}, []uuid.UUID{c.SessionID, b.SessionID}},
		"to":       {Filter{To: &b.StartedAt}, []uuid.UUID{a.SessionID}},
		"name":     {Filter{Name: new("nightly")}, []uuid.UUID{b.SessionID, a.SessionID}},
		"no name":  {Filter{Name: new("Nightly")}, nil},
		"label":    {Filter{Metadata: []Metadata{{"team": "x"}}}, []uuid.UUID{b.SessionID, a.SessionID}},
		"labels":   {Filter{Metadata: []Metadata{{"team": "x"}, {"run": "2"}}}, []uuid.UUID{b.SessionID}},
		"values":   {Filter{Metadata: []Metadata{{"team": "x"}, {"team": "y"}}}, nil},
		"all five": {Filter{Status: new("running"), ProfileID: &a.ProfileID, MachineID: new("worker-1"), From: &noon, To: &c.StartedAt}, []uuid.UUID{a.SessionID}},
	} {
		t.Run(name, func(t *testing.T) {
			found := f.list(test.filter, newest)
			if diff := cmp.Diff(test.want, ids(found.Items)); diff != "" || found.Total != len(test.want) {
				t.Errorf("total %d (-want +got):\n%s", found.Total, diff)
			}
		})
	}
}

func TestList_PagesAndSorts(t *testing.T) {
	f := newFixture(t)
	a, b, c := f.start(noon), f.start(noon), f.start(noon.Add(time.Minute))
	f.started(a, b, c)
	f.ended(c.end(noon.Add(2*time.Minute)), a.end(noon.Add(3*time.Minute)))
	foreign := f.start(noon)
	foreign.OrganizationID = f.organization()
	f.started(foreign)

	second := f.list(Filter{}, page.Request{Page: 2, Limit: 2, SortBy: "startedAt", Desc: true})
	if diff := cmp.Diff([]uuid.UUID{a.SessionID}, ids(second.Items)); diff != "" || second.Total != 3 || !second.HasPrev() || second.HasNext() {
		t.Errorf("page 2 of %d (-want +got):\n%s", second.Total, diff)
	}
	byEnd := f.list(Filter{}, page.Request{Page: 1, Limit: 20, SortBy: "endedAt", Desc: true})
	if diff := cmp.Diff([]uuid.UUID{b.SessionID, a.SessionID, c.SessionID}, ids(byEnd.Items)); diff != "" {
		t.Errorf("by end, the running one first (-want +got):\n%s", diff)
	}
	beyond := f.list(Filter{}, page.Request{Page: 9, Limit: 20, SortBy: "startedAt"})
	if beyond.Items == nil || len(beyond.Items) != 0 || beyond.Total != 3 {
		t.Errorf("beyond the last page: %+v", beyond)
	}
}

func TestListAfter_MatchesPages(t *testing.T) {
	f := newFixture(t)
	var all []uuid.UUID
	for i := range 23 { // some have the same start time
		s := f.start(noon.Add(time.Duration(i/3) * time.Millisecond))
		f.started(s)
		all = append(all, s.SessionID)
	}
	for _, desc := range []bool{false, true} {
		want := slices.Clone(all)
		if desc {
			slices.Reverse(want)
		}
		req := page.Request{Page: 1, Limit: 4, SortBy: "startedAt", Desc: desc}
		var pages, steps []uuid.UUID
		for req.Page = 1; ; req.Page++ {
			l := f.list(Filter{}, req)
			pages = append(pages, ids(l.Items)...)
			if (l.Next != "") != l.HasNext() {
				t.Errorf("page %d: the cursor %q, a next page %t", req.Page, l.Next, l.HasNext())
			}
			if !l.HasNext() {
				break
			}
		}
		req.Page = 1
		l := f.list(Filter{}, req)
		for {
			steps = append(steps, ids(l.Items)...)
			if l.Next == "" {
				break
			}
			var err error
			if l, err = f.feed.ListAfter(t.Context(), f.org, Filter{}, req, l.Next); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, pages); diff != "" {
			t.Errorf("by pages, desc=%t (-want +got):\n%s", desc, diff)
		}
		if diff := cmp.Diff(want, steps); diff != "" {
			t.Errorf("by cursor, desc=%t (-want +got):\n%s", desc, diff)
		}
		req.Page = 99
		if l := f.list(Filter{}, req); len(l.Items) != 0 || l.Total != 23 {
			t.Errorf("beyond the end: %d items of %d", len(l.Items), l.Total)
		}
	}
	for _, c := range []struct{ cursor, by string }{
		{"", "startedAt"}, {"bm8", "startedAt"}, {"%", "startedAt"}, {cursorAfter(Session{}), "endedAt"},
		{"gAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "startedAt"}, {"f_________8AAAAAAAAAAAAAAAAAAAAA", "startedAt"}, // outside the range of the database
	} {
		_, err := f.feed.ListAfter(t.Context(), f.org, Filter{}, page.Request{Page: 1, Limit: 4, SortBy: c.by}, c.cursor)
		if e, ok := errors.AsType[*fault.Error](err); !ok || e.Kind != fault.Validation || e.Details[0].Field != "cursor" {
			t.Errorf("cursor %q by %s: %v, want a validation error", c.cursor, c.by, err)
		}
	}
}

func ids(sessions []Session) []uuid.UUID {
	var out []uuid.UUID
	for _, s := range sessions {
		out = append(out, s.ID)
	}
	return out
}
