package org_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/tenancy/org"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

func TestCreate_AddsOwnerAndProvisions(t *testing.T) {
	f := newFixture(t)
	u, now := f.user(uuid.NewString()), f.clock.Now()
	got := f.create(u, "Analytical Engines", "engines")
	want := org.Organization{ID: got.ID, Name: "Analytical Engines", Slug: "engines", Role: "owner", CreatedAt: now}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("organization (-want +got):\n%s", diff)
	}
	read, err := f.Get(t.Context(), u, got.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Errorf("as read (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"organization.created " + got.ID.String()}, f.recorded()); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]uuid.UUID{got.ID}, f.provisioner.orgs); diff != "" {
		t.Errorf("provisioned (-want +got):\n%s", diff)
	}
}

func TestCreate_RolledBackWhenProvisioningFails(t *testing.T) {
	f := newFixture(t)
	f.provisioner.err = errors.New("no plan")
	u := f.user(uuid.NewString())
	if _, err := f.Create(t.Context(), u, org.NewOrganization{Name: "A", Slug: "aa"}); !errors.Is(err, f.provisioner.err) {
		t.Errorf("error %v, want that of the provisioner", err)
	}
	var rows int
	if err := f.db.Get(&rows, `SELECT (SELECT count(*) FROM organizations) + (SELECT count(*) FROM memberships)`); err != nil || rows != 0 {
		t.Errorf("got %d rows, %v; want none", rows, err)
	}
}

func TestCreate_RefusesTakenSlug(t *testing.T) {
	f := newFixture(t)
	f.create(f.user(uuid.NewString()), "A", "engines")
	_, err := f.Create(t.Context(), f.user(uuid.NewString()), org.NewOrganization{Name: "B", Slug: "engines"})
	if !fault.Is(err, fault.Conflict) || fault.From(err).Details[0].Field != "slug" {
		t.Errorf("error %v, want a conflict about the slug", err)
	}
}

// document is the pattern of a slug in the API document.
var document = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

func TestCreate_DerivesSlugFromName(t *testing.T) {
	f := newFixture(t)
	u := f.user(uuid.NewString())
	long := strings.Repeat("ab-", 30)
	for _, test := range []struct{ name, want string }{
		{"Analytical Engines", `^analytical-engines$`},
		{"Analytical  Engines!", `^analytical-engines-[a-z2-7]{6}$`},
		{"  --Zürich & Söhne (2026)--  ", `^zurich-sohne-2026$`},
		{"ＷＩＤＥ", `^wide$`},
		{"株式会社", `^org-[a-z2-7]{6}$`},
		{"X", `^org-[a-z2-7]{6}$`},
		{long, `^(ab-){20}ab$`},
		{long, `^(ab-){18}ab-[a-z2-7]{6}$`},
	} {
		slug := f.create(u, test.name, "").Slug
		if !regexp.MustCompile(test.want).MatchString(slug) {
			t.Errorf("%q: got slug %q, want %s", test.name, slug, test.want)
		}
		if !document.MatchString(slug) || len(slug) < 2 || len(slug) > 63 {
			t.Errorf("%q: the document does not allow the slug %q", test.name, slug)
		}
	}
}

func TestList_ShowsOnlyOwnMemberships(t *testing.T) {
	f := newFixture(t)
	me, other := f.user(uuid.NewString()), f.user(uuid.NewString())
	b, c, a := f.create(me, "b", "bb"), f.create(me, "c", "cc"), f.create(me, "a", "aa")
	f.create(other, "d", "dd")
	for _, test := range []struct {
		name  string
		r     page.Request
		want  []uuid.UUID
		total int
	}{
		{"newest first", page.Request{Page: 1, Limit: 10, SortBy: "createdAt", Desc: true}, []uuid.UUID{a.ID, c.ID, b.ID}, 3},
		{"by name", page.Request{Page: 1, Limit: 10, SortBy: "name"}, []uuid.UUID{a.ID, b.ID, c.ID}, 3},
		{"second page", page.Request{Page: 2, Limit: 2, SortBy: "name"}, []uuid.UUID{c.ID}, 3},
		{"beyond the end", page.Request{Page: 3, Limit: 2, SortBy: "name"}, nil, 3},
	} {
		got, err := f.List(t.Context(), me, test.r)
		if err != nil {
			t.Fatal(err)
		}
		var ids []uuid.UUID
		for _, o := range got.Items {
			ids = append(ids, o.ID)
		}
		if diff := cmp.Diff(test.want, ids); diff != "" || got.Total != test.total {
			t.Errorf("%s: total %d, (-want +got):\n%s", test.name, got.Total, diff)
		}
	}
}

func TestGet_ForeignOrganizationNotFound(t *testing.T) {
	f := newFixture(t)
	o := f.create(f.user(uuid.NewString()), "A", "aa")
	otherUser := f.user(uuid.NewString())
	if _, err := f.Get(t.Context(), otherUser, o.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("error %v, want not found", err)
	}
	if role, err := f.Role(t.Context(), o.ID, otherUser); role != "" || err != nil {
		t.Errorf("role %q, %v; want none", role, err)
	}
	if ids, err := f.Organizations(t.Context(), otherUser); len(ids) != 0 || err != nil {
		t.Errorf("organizations %v, %v; want none", ids, err)
	}
}
