package org_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/tenancy/org"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

func TestMembers_FilterAndSort(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	other := f.user("Zoe")
	f.create(other, "Elsewhere", "elsewhere")
	f.db.MustExec(`UPDATE users SET name = 'Ada 100%' WHERE id = $1`, tm.member)
	all := page.Request{Page: 1, Limit: 10, SortBy: "joinedAt"}
	for name, test := range map[string]struct {
		filter org.MemberFilter
		r      page.Request
		want   []uuid.UUID
		total  int
	}{
		"all":              {r: all, want: []uuid.UUID{tm.owner, tm.admin, tm.member}, total: 3},
		"newest first":     {r: page.Request{Page: 1, Limit: 10, SortBy: "joinedAt", Desc: true}, want: []uuid.UUID{tm.member, tm.admin, tm.owner}, total: 3},
		"by name":          {r: page.Request{Page: 1, Limit: 10, SortBy: "name"}, want: []uuid.UUID{tm.member, tm.admin, tm.owner}, total: 3},
		"by address":       {r: page.Request{Page: 1, Limit: 10, SortBy: "email", Desc: true}, want: []uuid.UUID{tm.owner, tm.member, tm.admin}, total: 3},
		"by power":         {r: page.Request{Page: 1, Limit: 10, SortBy: "role", Desc: true}, want: []uuid.UUID{tm.owner, tm.admin, tm.member}, total: 3},
		"second page":      {r: page.Request{Page: 2, Limit: 2, SortBy: "joinedAt"}, want: []uuid.UUID{tm.member}, total: 3},
		"a role":           {filter: org.MemberFilter{Role: org.Admin}, r: all, want: []uuid.UUID{tm.admin}, total: 1},
		"part of a name":   {filter: org.MemberFilter{Search: "OLG"}, r: all, want: []uuid.UUID{tm.owner}, total: 1},
		"part of a mail":   {filter: org.MemberFilter{Search: "mary@EX"}, r: all, want: []uuid.UUID{tm.member}, total: 1},
		"a wildcard":       {filter: org.MemberFilter{Search: "0%"}, r: all, want: []uuid.UUID{tm.member}, total: 1},
		"another one":      {filter: org.MemberFilter{Search: "a_a"}, r: all, total: 0},
		"both":             {filter: org.MemberFilter{Search: "example", Role: org.Member}, r: all, want: []uuid.UUID{tm.member}, total: 1},
		"somebody else's":  {filter: org.MemberFilter{Search: "zoe"}, r: all, total: 0},
		"beyond the end":   {r: page.Request{Page: 9, Limit: 2, SortBy: "joinedAt"}, total: 3},
		"role and nothing": {filter: org.MemberFilter{Search: "olga", Role: org.Member}, r: all, total: 0},
	} {
		got, err := f.Members(t.Context(), tm.id, test.filter, test.r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var ids []uuid.UUID
		for _, m := range got.Items {
			ids = append(ids, m.UserID)
		}
		if diff := cmp.Diff(test.want, ids); diff != "" || got.Total != test.total {
			t.Errorf("%s: total %d, want %d (-want +got):\n%s", name, got.Total, test.total, diff)
		}
	}
	got, err := f.Members(t.Context(), tm.id, org.MemberFilter{Role: org.Owner}, all)
	if err != nil {
		t.Fatal(err)
	}
	want := []org.Membership{{UserID: tm.owner, Email: "olga@example.com", Name: "Olga", Role: org.Owner,
		JoinedAt: time.Date(2026, 11, 21, 10, 15, 0, 0, time.UTC)}}
	if diff := cmp.Diff(want, got.Items); diff != "" {
		t.Errorf("a member (-want +got):\n%s", diff)
	}
}

// TestChangeRole_Permissions tests every actor with every target role and every new
// role.
func TestChangeRole_Permissions(t *testing.T) {
	roles := []org.Role{org.Owner, org.Admin, org.Member}
	f := newFixture(t)
	tm := f.team()
	for _, actor := range roles {
		for _, old := range roles {
			for _, role := range roles {
				target := f.join(tm.id, uuid.NewString(), old)
				_, err := f.ChangeRole(t.Context(), tm.id, tm.id3()[actor], target, role)
				allowed := actor == org.Owner || actor == org.Admin && old == org.Member && role == org.Member
				if !allowed {
					wantKind(t, string(actor+" makes "+old+" "+role), err, fault.Forbidden, "Only an owner")
					role = old
				} else if err != nil {
					t.Errorf("%s makes %s %s: %v", actor, old, role, err)
				}
				if got := f.role(tm.id, target); got != string(role) {
					t.Errorf("%s changed %s: the role is %s, want %s", actor, old, got, role)
				}
			}
		}
	}
}

func TestRemove_Permissions(t *testing.T) {
	roles := []org.Role{org.Owner, org.Admin, org.Member}
	f := newFixture(t)
	tm := f.team()
	for _, actor := range roles {
		for _, role := range roles {
			target := f.join(tm.id, uuid.NewString(), role)
			err := f.Remove(t.Context(), tm.id, tm.id3()[actor], target)
			if actor == org.Owner || actor == org.Admin && role == org.Member {
				if err != nil || f.role(tm.id, target) != "" {
					t.Errorf("%s removes %s: %v", actor, role, err)
				}
			} else {
				wantKind(t, string(actor+" removes "+role), err, fault.Forbidden, "Only an owner")
				if f.role(tm.id, target) != string(role) {
					t.Errorf("%s removed %s", actor, role)
				}
			}
		}
	}
}

func TestRemove_LastOwnerCannotLeave(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	for _, who := range []uuid.UUID{tm.member, tm.admin} {
		if err := f.Remove(t.Context(), tm.id, who, who); err != nil || f.role(tm.id, who) != "" {
			t.Errorf("leave: %v", err)
		}
	}
	if diff := cmp.Diff([]string{"member.left " + tm.member.String(), "member.left " + tm.admin.String()}, f.recorded()); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
	wantKind(t, "the last owner leaves", f.Remove(t.Context(), tm.id, tm.owner, tm.owner), fault.Conflict, "needs an owner")
	_, err := f.ChangeRole(t.Context(), tm.id, tm.owner, tm.owner, org.Admin)
	wantKind(t, "the last owner steps down", err, fault.Conflict, "needs an owner")
	if f.role(tm.id, tm.owner) != "owner" {
		t.Error("the last owner was removed")
	}
	second := f.join(tm.id, "Second", org.Owner)
	if _, err := f.ChangeRole(t.Context(), tm.id, tm.owner, tm.owner, org.Member); err != nil {
		t.Errorf("demote one of two owners: %v", err)
	}
	wantKind(t, "the other one leaves", f.Remove(t.Context(), tm.id, second, second), fault.Conflict, "needs an owner")
}

func TestChangeRole_ReturnedAndRecordedOnce(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	for range 2 {
		got, err := f.ChangeRole(t.Context(), tm.id, tm.owner, tm.member, org.Admin)
		if err != nil || got.UserID != tm.member || got.Role != org.Admin || got.Email != "mary@example.com" {
			t.Errorf("changed to %+v, %v", got, err)
		}
	}
	if diff := cmp.Diff([]string{"member.roleChanged " + tm.member.String()}, f.recorded()); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
}

func TestChangeRoleAndRemove_UnknownMemberNotFound(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	otherUser := f.user("Zoe")
	elsewhere := f.create(otherUser, "Elsewhere", "elsewhere")
	for name, err := range map[string]error{
		"the role of another user": errorOf(f.ChangeRole(t.Context(), tm.id, tm.owner, otherUser, org.Admin)),
		"remove another user":      f.Remove(t.Context(), tm.id, tm.owner, otherUser),
		"an unknown user":          f.Remove(t.Context(), tm.id, tm.owner, uuid.New()),
		"an owner from elsewhere":  f.Remove(t.Context(), tm.id, otherUser, tm.member),
		"a member of elsewhere":    f.Remove(t.Context(), elsewhere.ID, otherUser, tm.member),
		"an unknown organization":  f.Remove(t.Context(), uuid.New(), tm.owner, tm.member),
	} {
		wantKind(t, name, err, fault.NotFound, "No such")
	}
	if n := f.count(`memberships`); n != 4 {
		t.Errorf("%d memberships, want all 4", n)
	}
}

func errorOf[T any](_ T, err error) error { return err }

func TestRemove_ConcurrentOwnersKeepOne(t *testing.T) {
	f := newFixture(t)
	for round := range 16 {
		first := f.user(uuid.NewString())
		id := f.create(first, "Engines", "").ID
		other := f.join(id, uuid.NewString(), org.Owner)
		owners := []uuid.UUID{first, other}
		done, refused := f.concurrently(2, func(i int) error {
			me, you := owners[i], owners[1-i]
			switch round % 4 {
			case 0:
				return f.Remove(t.Context(), id, me, me)
			case 1:
				return errorOf(f.ChangeRole(t.Context(), id, me, me, org.Member))
			case 2: // the first removal makes the second one forbidden
				return errorOf(f.ChangeRole(t.Context(), id, me, you, org.Member))
			default:
				return f.Remove(t.Context(), id, me, you)
			}
		})
		want := map[fault.Kind]int{[]fault.Kind{fault.Conflict, fault.Conflict, fault.Forbidden, fault.NotFound}[round%4]: 1}
		if diff := cmp.Diff(want, refused); diff != "" || done != 1 {
			t.Errorf("round %d: %d done (-want +got):\n%s", round, done, diff)
		}
		if n := f.count(`memberships WHERE organization_id = $1 AND role = 'owner'`, id); n != 1 {
			t.Errorf("round %d: got %d owners", round, n)
		}
	}
}
