package org_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/tenancy/org"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/netrules"
)

func TestUpdate_Renames(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	for _, test := range []struct {
		change     org.Change
		name, slug string
	}{
		{org.Change{Name: new("Difference Engines")}, "Difference Engines", "engines"},
		{org.Change{Slug: new("difference")}, "Difference Engines", "difference"},
		{org.Change{Slug: new("difference")}, "Difference Engines", "difference"},
		{org.Change{Name: new("E"), Slug: new("ee")}, "E", "ee"},
	} {
		got, err := f.Update(t.Context(), tm.id, tm.admin, test.change)
		if err != nil {
			t.Fatal(err)
		}
		if got.Name != test.name || got.Slug != test.slug || got.Role != org.Admin || got.ID != tm.id {
			t.Errorf("renamed to %+v", got)
		}
		read, err := f.Get(t.Context(), tm.admin, tm.id)
		if diff := cmp.Diff(got, read); diff != "" || err != nil {
			t.Errorf("read %v (-answer +read):\n%s", err, diff)
		}
	}
	if got := f.recorded(); len(got) != 4 || got[0] != "organization.updated "+tm.id.String() {
		t.Errorf("recorded %v", got)
	}
}

func TestUpdate_Refusals(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	otherUser := f.user("Zoe")
	f.create(otherUser, "Elsewhere", "elsewhere")
	f.recorded()
	_, err := f.Update(t.Context(), tm.id, tm.owner, org.Change{Name: new("N"), Slug: new("elsewhere")})
	wantKind(t, "a taken slug", err, fault.Conflict, "already in use")
	_, err = f.Update(t.Context(), tm.id, tm.member, org.Change{Name: new("N")})
	wantKind(t, "a member", err, fault.Forbidden, "Only an owner or an admin")
	_, err = f.Update(t.Context(), tm.id, otherUser, org.Change{Name: new("N")})
	wantKind(t, "another user", err, fault.NotFound, "organization")
	if o, err := f.Get(t.Context(), tm.owner, tm.id); err != nil || o.Name != "Analytical Engines" || o.Slug != "engines" || f.recorded() != nil {
		t.Errorf("changed to %+v, %v", o, err)
	}
}

func TestUpdate_ChangesNetworkRules(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	rules := &netrules.Rules{Navigate: &netrules.Filter{Allow: []string{}}, Connect: &netrules.Filter{Deny: []string{"10.0.0.0/8"}}}
	for _, test := range []struct {
		change org.Change
		want   *netrules.Rules
	}{
		{org.Change{Network: rules}, rules},
		{org.Change{Name: new("E")}, rules},
		{org.Change{Network: &netrules.Rules{}}, &netrules.Rules{}},
		{org.Change{ClearNetwork: true}, nil},
	} {
		got, err := f.Update(t.Context(), tm.id, tm.admin, test.change)
		if diff := cmp.Diff(test.want, got.Network); diff != "" || err != nil {
			t.Errorf("%+v: %v (-want +got):\n%s", test.change, err, diff)
		}
		read, err := f.Get(t.Context(), tm.member, tm.id)
		if diff := cmp.Diff(test.want, read.Network); diff != "" || err != nil {
			t.Errorf("read %v (-want +got):\n%s", err, diff)
		}
	}
	if f.count("organizations WHERE network IS NOT NULL") != 0 {
		t.Error("the cleared rules are stored")
	}
	if got := f.recorded(); len(got) != 4 {
		t.Errorf("recorded %v", got)
	}
}

func TestUpdate_RefusesInvalidNetworkRules(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	invalid := org.Change{Name: new("N"), Network: &netrules.Rules{Connect: &netrules.Filter{Deny: []string{"ok.example", "https://x/"}}}}
	_, err := f.Update(t.Context(), tm.id, tm.owner, invalid)
	if details := fault.From(err).Details; !fault.Is(err, fault.Validation) || len(details) != 1 || details[0].Field != "network.connect.deny[1]" {
		t.Errorf("error %v, details %+v", err, details)
	}
	if o, err := f.Get(t.Context(), tm.owner, tm.id); err != nil || o.Name != "Analytical Engines" || o.Network != nil || f.recorded() != nil {
		t.Errorf("changed to %+v, %v", o, err)
	}
}

// TestDelete_RemovesEverything checks every table with an organization column.
func TestDelete_RemovesEverything(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	otherUser := f.user("Zoe")
	kept := f.create(otherUser, "Elsewhere", "elsewhere").ID
	for _, id := range []uuid.UUID{tm.id, kept} {
		f.db.MustExec(`INSERT INTO profiles (id, organization_id, name, browser_version, created_at, updated_at) VALUES ($1, $2, 'P', 156, now(), now())`, uuid.New(), id)
		f.db.MustExec(`INSERT INTO api_keys (id, organization_id, name, key_hash, prefix, last_four, created_at) VALUES ($1::uuid, $2, 'K', sha256($1::text::bytea), 'p', 'last', now())`, uuid.New(), id)
		f.db.MustExec(`INSERT INTO license_org (organization_id) VALUES ($1)`, id)
		f.db.MustExec(`INSERT INTO license_machines (organization_id, machine_id, boot_id, seq, heartbeat_at) VALUES ($1, 'm', $2, 1, now())`, id, uuid.New())
		f.db.MustExec(`INSERT INTO license_slots (id, organization_id, session_id, machine_id, boot_id, state, reserved_at, lease_until) VALUES ($1, $2, $1, 'm', $1, 'reserved', now(), now())`, uuid.New(), id)
		f.db.MustExec(`INSERT INTO activity_sessions (id, organization_id, profile_id, profile_name, machine_id, launch_id, browser_version, status, started_at) VALUES ($1, $2, $1, 'P', 'm', $1, 156, 'running', now())`, uuid.New(), id)
	}
	f.db.MustExec(`UPDATE users SET last_organization_id = $1`, tm.id)
	f.invite(tm.id, tm.owner, "new@example.com", org.Member)
	f.recorded()

	if err := f.Delete(t.Context(), tm.id, tm.owner, "engines"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]uuid.UUID{tm.id}, f.ending.orgs); diff != "" {
		t.Errorf("ended (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"organization.deleted " + tm.id.String()}, f.recorded()); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
	var columns []struct{ Table, Column string }
	err := f.db.Select(&columns, `
		SELECT table_name AS table, column_name AS column FROM information_schema.columns
		WHERE table_schema = 'public' AND column_name IN ('organization_id', 'organization_id', 'last_organization_id')`)
	if err != nil || len(columns) < 9 {
		t.Fatalf("%d columns, %v", len(columns), err)
	}
	full := 0
	for _, c := range columns {
		if n := f.count(c.Table+` WHERE `+c.Column+` = $1`, tm.id); n != 0 {
			t.Errorf("got %d rows in %s, want none", n, c.Table)
		}
		if f.count(c.Table+` WHERE `+c.Column+` = $1`, kept) > 0 {
			full++
		}
	}
	if full < 8 {
		t.Errorf("only %d tables have rows of the other organization", full)
	}
	if n := f.count(`users`); n != 4 {
		t.Errorf("%d users, want all 4", n)
	}
	_, err = f.Get(t.Context(), tm.owner, tm.id)
	wantKind(t, "read it", err, fault.NotFound, "organization")
	if ids, err := f.Organizations(t.Context(), tm.owner); len(ids) != 0 || err != nil {
		t.Errorf("the owner's organizations: %v, %v", ids, err)
	}
	f.create(tm.owner, "Again", "engines")
}

func TestDelete_Refusals(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	otherUser := f.user("Zoe")
	f.create(otherUser, "Elsewhere", "elsewhere")
	f.recorded()
	for name, err := range map[string]error{
		"an admin": f.Delete(t.Context(), tm.id, tm.admin, "engines"),
		"a member": f.Delete(t.Context(), tm.id, tm.member, "engines"),
	} {
		wantKind(t, name, err, fault.Forbidden, "Only an owner")
	}
	wantKind(t, "another user", f.Delete(t.Context(), tm.id, otherUser, "engines"), fault.NotFound, "organization")
	for _, slug := range []string{"", "Engines", "elsewhere"} {
		err := f.Delete(t.Context(), tm.id, tm.owner, slug)
		wantKind(t, slug, err, fault.Validation, "")
		if !strings.Contains(fault.From(err).Details[0].Field, "confirmSlug") {
			t.Errorf("%q: %+v", slug, fault.From(err).Details)
		}
	}
	f.ending.err = errors.New("the slots are stuck")
	if err := f.Delete(t.Context(), tm.id, tm.owner, "engines"); !errors.Is(err, f.ending.err) {
		t.Errorf("error %v, want that of the Ender", err)
	}
	if f.role(tm.id, tm.owner) != "owner" || f.count(`organizations`) != 2 {
		t.Error("the refused deletion removed rows")
	}
}
