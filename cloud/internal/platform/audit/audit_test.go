package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/platform/audit"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/page"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

type sourceKey struct{}

// withSource returns a context with this source.
func withSource(ctx context.Context, s audit.Source) context.Context {
	return context.WithValue(ctx, sourceKey{}, s)
}

// fixture is a Log with row-level security, as in the service.
type fixture struct {
	t     *testing.T
	owner *sqlx.DB // sees all rows
	clock *clock.Fake
	log   *audit.Log
	org   uuid.UUID
	ada   uuid.UUID
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dsn := dbtest.NewDSN(t)
	f := &fixture{t: t, owner: dbtest.Open(t, dsn, pg.Options{}), clock: clock.NewFake(noon), org: newID(), ada: newID()}
	f.log = &audit.Log{DB: dbtest.Open(t, dsn, pg.Options{Role: pg.AppRole}), Clock: f.clock,
		Source: func(ctx context.Context) audit.Source { s, _ := ctx.Value(sourceKey{}).(audit.Source); return s }}
	f.owner.MustExec(`INSERT INTO users (id, email, name, password_hash, created_at) VALUES ($1, 'ada@example.com', 'Ada', '', now())`, f.ada)
	return f
}

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// record records an event of the organization and advances the clock.
func (f *fixture) record(ctx context.Context, org uuid.UUID, action, target string, details map[string]any) error {
	defer f.clock.Advance(time.Minute)
	return pg.InOrg(f.t.Context(), f.log.DB, org, func(tx *sqlx.Tx) error {
		return f.log.Record(ctx, tx, org, action, target, details)
	})
}

func (f *fixture) mustRecord(ctx context.Context, org uuid.UUID, action, target string) {
	f.t.Helper()
	if err := f.record(ctx, org, action, target, nil); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) list(filter audit.Filter, req page.Request) page.Page[audit.Event] {
	f.t.Helper()
	found, err := f.log.List(f.t.Context(), f.org, filter, req)
	if err != nil {
		f.t.Fatal(err)
	}
	return found
}

var newest = page.Request{Page: 1, Limit: 20, SortBy: "createdAt", Desc: true}

func TestRecord_StoresActorSourceAndDetails(t *testing.T) {
	f := newFixture(t)
	key := newID()
	user := audit.Source{UserID: f.ada, ClientAddress: "203.0.113.7", RequestID: "r-1"}
	worker := audit.Source{KeyID: key, ClientAddress: "2001:db8::1", RequestID: "r-2"}
	if err := f.record(withSource(t.Context(), user), f.org, "apiKey.created", "k-1", map[string]any{"name": "fleet", "nested": []int{1}}); err != nil {
		t.Fatal(err)
	}
	f.mustRecord(withSource(t.Context(), worker), f.org, "machine.registered", "m-1")
	f.mustRecord(t.Context(), f.org, "subscription.changed", "s-1")
	found := f.list(audit.Filter{}, page.Request{Page: 1, Limit: 20, SortBy: "createdAt"})
	want := []audit.Event{
		{Action: "apiKey.created", TargetID: "k-1", ActorType: audit.User, ActorID: &f.ada, ActorEmail: new("ada@example.com"),
			ClientAddress: new("203.0.113.7"), RequestID: new("r-1"), Details: json.RawMessage(`{"name": "fleet", "nested": [1]}`), CreatedAt: noon},
		{Action: "machine.registered", TargetID: "m-1", ActorType: audit.Key, ActorID: &key,
			ClientAddress: new("2001:db8::1"), RequestID: new("r-2"), Details: json.RawMessage(`{}`), CreatedAt: noon.Add(time.Minute)},
		{Action: "subscription.changed", TargetID: "s-1", ActorType: audit.System, Details: json.RawMessage(`{}`), CreatedAt: noon.Add(2 * time.Minute)},
	}
	for i := range found.Items {
		if found.Items[i].ID.Version() != 7 {
			t.Errorf("id %s", found.Items[i].ID)
		}
		found.Items[i].ID = uuid.Nil
	}
	if diff := cmp.Diff(want, found.Items); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestRecord_StoresEmailAtTimeOfEvent(t *testing.T) {
	f := newFixture(t)
	f.mustRecord(withSource(t.Context(), audit.Source{UserID: f.ada}), f.org, "member.removed", "x")
	f.owner.MustExec(`UPDATE users SET email = 'lovelace@example.com'`)
	f.mustRecord(withSource(t.Context(), audit.Source{UserID: f.ada}), f.org, "member.removed", "y")
	f.owner.MustExec(`DELETE FROM users`)
	var emails []string
	for _, e := range f.list(audit.Filter{}, newest).Items {
		emails = append(emails, *e.ActorEmail)
	}
	if diff := cmp.Diff([]string{"lovelace@example.com", "ada@example.com"}, emails); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}

func TestRecord_RollsBackWithChange(t *testing.T) {
	f := newFixture(t)
	undone := errors.New("undone")
	err := pg.InOrg(t.Context(), f.log.DB, f.org, func(tx *sqlx.Tx) error {
		if err := f.log.Record(t.Context(), tx, f.org, "member.removed", "x", nil); err != nil {
			return err
		}
		return undone
	})
	if n := f.list(audit.Filter{}, newest).Total; n != 0 || !errors.Is(err, undone) {
		t.Errorf("%d events of a rolled back change, %v", n, err)
	}
}

func TestRecord_RefusesInvalidDetails(t *testing.T) {
	f := newFixture(t)
	for name, e := range map[string]struct {
		action, target string
		details        map[string]any
	}{
		"no verb": {"member", "x", nil}, "no target": {"member.removed", "", nil},
		"a long target":   {"member.removed", strings.Repeat("x", 129), nil},
		"long details":    {"member.removed", "x", map[string]any{"text": strings.Repeat("x", 17<<10)}},
		"no JSON":         {"member.removed", "x", map[string]any{"f": func() {}}},
		"an empty action": {"", "x", nil},
	} {
		if err := f.record(t.Context(), f.org, e.action, e.target, e.details); err == nil {
			t.Errorf("%s: the event was recorded", name)
		}
	}
}

func TestRowLevelSecurity_IsolatesOrganizations(t *testing.T) {
	f := newFixture(t)
	other := newID()
	f.mustRecord(t.Context(), other, "member.removed", "x")
	if n := f.list(audit.Filter{}, newest).Total; n != 0 {
		t.Errorf("%d events of another organization are listed", n)
	}
	err := pg.InOrg(t.Context(), f.log.DB, f.org, func(tx *sqlx.Tx) error {
		return f.log.Record(t.Context(), tx, other, "member.removed", "y", nil)
	})
	if err == nil {
		t.Error("an event of another organization was recorded")
	}
}

func TestList_ScopedWithoutRowLevelSecurity(t *testing.T) {
	f := newFixture(t)
	f.log.DB = f.owner
	f.mustRecord(t.Context(), newID(), "member.removed", "foreign")
	f.mustRecord(t.Context(), f.org, "member.removed", "own")
	if found := f.list(audit.Filter{}, newest); found.Total != 1 || len(found.Items) != 1 || found.Items[0].TargetID != "own" {
		t.Errorf("listed: %+v", found)
	}
}

func TestList_Filters(t *testing.T) {
	f := newFixture(t)
	f.mustRecord(withSource(t.Context(), audit.Source{UserID: f.ada}), f.org, "apiKey.created", "a") // noon
	f.mustRecord(t.Context(), f.org, "apiKey.created", "b")                                          // 12:01
	f.mustRecord(withSource(t.Context(), audit.Source{UserID: f.ada}), f.org, "apiKey.revoked", "b") // 12:02
	first, second := noon.Add(time.Minute), noon.Add(2*time.Minute)
	for name, test := range map[string]struct {
		filter audit.Filter
		want   []string // action and target, newest first
	}{
		"nothing":   {audit.Filter{}, []string{"apiKey.revoked b", "apiKey.created b", "apiKey.created a"}},
		"action":    {audit.Filter{Action: new("apiKey.created")}, []string{"apiKey.created b", "apiKey.created a"}},
		"actor":     {audit.Filter{ActorID: &f.ada}, []string{"apiKey.revoked b", "apiKey.created a"}},
		"target":    {audit.Filter{TargetID: new("b")}, []string{"apiKey.revoked b", "apiKey.created b"}},
		"from":      {audit.Filter{From: &first}, []string{"apiKey.revoked b", "apiKey.created b"}},
		"to":        {audit.Filter{To: &second}, []string{"apiKey.created b", "apiKey.created a"}},
		"all":       {audit.Filter{Action: new("apiKey.revoked"), ActorID: &f.ada, TargetID: new("b"), From: &second, To: new(second.Add(1000))}, []string{"apiKey.revoked b"}},
		"a mistake": {audit.Filter{TargetID: new("' OR true --")}, nil},
	} {
		found := f.list(test.filter, newest)
		var got []string
		for _, e := range found.Items {
			got = append(got, e.Action+" "+e.TargetID)
		}
		if diff := cmp.Diff(test.want, got); diff != "" || found.Total != len(test.want) {
			t.Errorf("%s: total %d (-want +got):\n%s", name, found.Total, diff)
		}
	}
}

func TestList_PagesAndSorts(t *testing.T) {
	f := newFixture(t)
	for _, target := range []string{"a", "b", "c"} {
		f.mustRecord(t.Context(), f.org, map[string]string{"a": "z.done", "b": "a.done", "c": "m.done"}[target], target)
	}
	second := f.list(audit.Filter{}, page.Request{Page: 2, Limit: 2, SortBy: "createdAt", Desc: true})
	if second.Total != 3 || len(second.Items) != 1 || second.Items[0].TargetID != "a" || second.HasNext() {
		t.Errorf("the second page: %+v", second)
	}
	byAction := f.list(audit.Filter{}, page.Request{Page: 1, Limit: 20, SortBy: "action"})
	if got := byAction.Items[0].TargetID + byAction.Items[1].TargetID + byAction.Items[2].TargetID; got != "bca" {
		t.Errorf("by action: %s", got)
	}
	beyond := f.list(audit.Filter{}, page.Request{Page: 9, Limit: 20, SortBy: "createdAt"})
	if beyond.Items == nil || len(beyond.Items) != 0 || beyond.Total != 3 {
		t.Errorf("beyond the last page: %+v", beyond)
	}
}
