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

func TestRevokeInvitation_Refusals(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	admin := f.invite(tm.id, tm.owner, "a@example.com", org.Admin)
	plain := f.invite(tm.id, tm.owner, "m@example.com", org.Member)
	other := f.user("Zoe")
	elsewhere := f.create(other, "Elsewhere", "elsewhere").ID
	f.recorded()
	revoke := func(orgID, actor, id uuid.UUID) error { return f.RevokeInvitation(t.Context(), orgID, actor, id) }
	wantKind(t, "an admin's by an admin", revoke(tm.id, tm.admin, admin.ID), fault.Forbidden, "Only an owner")
	wantKind(t, "by a member", revoke(tm.id, tm.member, plain.ID), fault.Forbidden, "Only an owner")
	wantKind(t, "of elsewhere", revoke(elsewhere, other, plain.ID), fault.NotFound, "invitation")
	wantKind(t, "by another user", revoke(tm.id, other, plain.ID), fault.NotFound, "organization")
	wantKind(t, "an unknown one", revoke(tm.id, tm.owner, uuid.New()), fault.NotFound, "invitation")
	if err := revoke(tm.id, tm.admin, plain.ID); err != nil {
		t.Error(err)
	}
	wantKind(t, "a revoked one", revoke(tm.id, tm.admin, plain.ID), fault.NotFound, "invitation")
	if diff := cmp.Diff([]string{"invitation.revoked " + plain.ID.String()}, f.recorded()); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
	f.clock.Advance(8 * 24 * time.Hour)
	wantKind(t, "an expired one", revoke(tm.id, tm.owner, admin.ID), fault.NotFound, "invitation")
}

func TestChangeRole_RevokesInvitationsAboveNewRole(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	boss := f.join(tm.id, "Boss", org.Owner)
	f.invite(tm.id, boss, "o@example.com", org.Owner)
	f.invite(tm.id, boss, "a@example.com", org.Admin)
	f.invite(tm.id, boss, "m@example.com", org.Member)
	f.invite(tm.id, tm.owner, "keep@example.com", org.Owner)
	live := func() []string {
		t.Helper()
		found, err := f.Invitations(t.Context(), tm.id, page.Request{Page: 1, Limit: 10, SortBy: "email"})
		if err != nil {
			t.Fatal(err)
		}
		var emails []string
		for _, i := range found.Items {
			emails = append(emails, i.Email)
		}
		return emails
	}
	for _, step := range []struct {
		do   func() error
		left []string
	}{
		{func() error { return errorOf(f.ChangeRole(t.Context(), tm.id, tm.owner, boss, org.Admin)) }, []string{"keep@example.com", "m@example.com"}},
		{func() error { return errorOf(f.ChangeRole(t.Context(), tm.id, tm.owner, boss, org.Owner)) }, []string{"keep@example.com", "m@example.com"}},
		{func() error { return f.Remove(t.Context(), tm.id, tm.owner, boss) }, []string{"keep@example.com"}},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.left, live()); diff != "" {
			t.Errorf("live (-want +got):\n%s", diff)
		}
	}
}

func TestSweepInvitations_DeletesOldRows(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	revoked := f.invite(tm.id, tm.owner, "r@example.com", org.Member)
	if err := f.RevokeInvitation(t.Context(), tm.id, tm.owner, revoked.ID); err != nil {
		t.Fatal(err)
	}
	lapsed := f.invite(tm.id, tm.owner, "l@example.com", org.Member)
	sweep := func(want int64, moment time.Time) {
		t.Helper()
		f.clock.Advance(moment.Sub(f.clock.Now()))
		if n, err := f.SweepInvitations(t.Context()); n != want || err != nil {
			t.Errorf("at %v: %d swept, %v; want %d", moment, n, err, want)
		}
	}
	keep := 90 * 24 * time.Hour
	sweep(0, revoked.CreatedAt.Add(keep))
	sweep(1, revoked.CreatedAt.Add(keep+2*time.Second))
	sweep(0, lapsed.ExpiresAt.Add(keep-time.Microsecond))
	sweep(1, lapsed.ExpiresAt.Add(keep))
}
