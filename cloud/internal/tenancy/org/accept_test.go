package org_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/tenancy/org"
	"github.com/browser-svc/svc/shared/fault"
)

func TestAccept_CreatesMembership(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	for _, role := range []org.Role{org.Owner, org.Admin, org.Member} {
		name := "new" + string(role)
		invited := f.invite(tm.id, tm.owner, address(name), role)
		f.recorded()
		id := f.user(name)
		got, err := f.Accept(t.Context(), id, f.token(address(name)))
		if err != nil {
			t.Fatal(err)
		}
		want := org.Organization{ID: tm.id, Name: "Analytical Engines", Slug: "engines", Role: role, CreatedAt: got.CreatedAt}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("joined (-want +got):\n%s", diff)
		}
		if f.role(tm.id, id) != string(role) {
			t.Errorf("the role is %q, want %s", f.role(tm.id, id), role)
		}
		if diff := cmp.Diff([]string{"member.joined " + id.String()}, f.recorded()); diff != "" {
			t.Errorf("recorded (-want +got):\n%s", diff)
		}
		if n := f.count(`invitations WHERE id = $1 AND outcome = 'accepted'`, invited.ID); n != 1 {
			t.Errorf("%d invitations were accepted", n)
		}
	}
}

func TestAccept_UnverifiedAddressWithoutMail(t *testing.T) {
	f := newFixture(t)
	tm, una := f.team(), f.user("Una")
	f.db.MustExec(`UPDATE users SET email_verified_at = NULL WHERE id = $1`, una)
	f.WithoutMail = true
	i := f.invite(tm.id, tm.owner, "una@example.com", org.Member)
	if joined, err := f.Accept(t.Context(), una, f.token(i.Email)); err != nil || joined.ID != tm.id {
		t.Errorf("joined %+v, %v", joined, err)
	}
}

func TestAccept_Refusals(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	otherUser, unverified, other := f.user("Zoe"), f.user("Una"), f.user("Oscar")
	f.db.MustExec(`UPDATE users SET email_verified_at = NULL WHERE id = $1`, unverified)
	invite := func(email string) string {
		t.Helper()
		f.invite(tm.id, tm.owner, email, org.Member)
		return f.token(email)
	}
	accept := func(userID uuid.UUID, token string) error { return errorOf(f.Accept(t.Context(), userID, token)) }

	una := invite(address("Una"))
	wantKind(t, "another's", accept(otherUser, una), fault.Forbidden, "for another e-mail address")
	wantKind(t, "not verified", accept(unverified, una), fault.Forbidden, "Verify your e-mail address")
	wantKind(t, "unknown", accept(otherUser, "8Yk0mJ8n1m9kz1p0xJbqk8m0b2sVvJ5dT3xYw9QxZ7E"), fault.NotFound, "No such invitation")

	zoe := invite(address("Zoe"))
	if err := accept(otherUser, zoe); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "used", accept(otherUser, zoe), fault.Conflict, "already been accepted")
	wantKind(t, "used, another's", accept(other, zoe), fault.Forbidden, "for another e-mail address")
	if err := f.Remove(t.Context(), tm.id, tm.owner, otherUser); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "used, by a removed member", accept(otherUser, zoe), fault.Conflict, "already been accepted")

	revoked := f.invite(tm.id, tm.owner, address("Oscar"), org.Member)
	oscar := f.token(address("Oscar"))
	if err := f.RevokeInvitation(t.Context(), tm.id, tm.owner, revoked.ID); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "revoked", accept(other, oscar), fault.Conflict, "was revoked")

	expiring := f.invite(tm.id, tm.owner, address("Oscar"), org.Member)
	oscar = f.token(address("Oscar"))
	f.clock.Advance(expiring.ExpiresAt.Sub(f.clock.Now()))
	wantKind(t, "expired", accept(other, oscar), fault.Conflict, "has expired")
	invite(address("Oscar"))
	wantKind(t, "expired and invited again", accept(other, oscar), fault.Conflict, "has expired")

	invite("mary2@example.com")
	f.db.MustExec(`UPDATE users SET email = 'mary2@example.com' WHERE id = $1`, tm.member)
	wantKind(t, "a member's", accept(tm.member, f.token("mary2@example.com")), fault.Conflict, "You are already a member")

	if n := f.count(`memberships`); n != 3 {
		t.Errorf("%d members, want the first 3", n)
	}
	last := invite("gone@example.com")
	gone := f.user("gone")
	if err := f.Delete(t.Context(), tm.id, tm.owner, "engines"); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "of an organization that is gone", accept(gone, last), fault.NotFound, "No such invitation")
}

func TestAccept_ChecksMemberLimit(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	f.invite(tm.id, tm.owner, address("Zoe"), org.Member)
	zoe := f.user("Zoe")
	f.limitMembers(tm.id, new(3))
	err := errorOf(f.Accept(t.Context(), zoe, f.token(address("Zoe"))))
	wantKind(t, "full", err, fault.Forbidden, "reached the member limit")
	var refusal *fault.Error
	want := []fault.Detail{{Field: "memberLimit", Code: fault.Custom, Message: "the limit is reached", Constraint: map[string]any{"current": 3, "limit": 3}}}
	if !errors.As(err, &refusal) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, refusal.Details); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	f.limitMembers(tm.id, new(4))
	if err := errorOf(f.Accept(t.Context(), zoe, f.token(address("Zoe")))); err != nil {
		t.Errorf("below the limit again: %v", err)
	}
}

func TestAccept_LimitIsExactConcurrently(t *testing.T) {
	const callers = 32
	f := newFixture(t)
	tm := f.team()
	f.limitMembers(tm.id, nil)
	var ids []uuid.UUID
	var tokens []string
	for range callers {
		name := uuid.NewString()
		f.invite(tm.id, tm.owner, address(name), org.Member)
		ids, tokens = append(ids, f.user(name)), append(tokens, f.token(address(name)))
	}
	f.limitMembers(tm.id, new(4))
	done, refused := f.concurrently(callers, func(i int) error { return errorOf(f.Accept(t.Context(), ids[i], tokens[i])) })
	if done != 1 || refused[fault.Forbidden] != callers-1 || f.count(`memberships`) != 4 {
		t.Errorf("%d joined, %v refused, %d members; want 1, %d, 4", done, refused, f.count(`memberships`), callers-1)
	}
}

func TestAccept_InvitationUsedOnceConcurrently(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	f.invite(tm.id, tm.owner, address("Zoe"), org.Member)
	zoe, token := f.user("Zoe"), f.token(address("Zoe"))
	done, refused := f.concurrently(16, func(int) error { return errorOf(f.Accept(t.Context(), zoe, token)) })
	if done != 1 || refused[fault.Conflict] != 15 || f.count(`memberships`) != 4 {
		t.Errorf("%d joined, %v refused, %d members", done, refused, f.count(`memberships`))
	}
}

// TestInviteAndAccept_LimitIsExactConcurrently invites and accepts concurrently at the
// limit, while members leave and the plan shrinks.
func TestInviteAndAccept_LimitIsExactConcurrently(t *testing.T) {
	const limit = 8
	f := newFixture(t)
	tm := f.team()
	f.limitMembers(tm.id, new(limit))
	var ids []uuid.UUID
	var tokens []string
	for range limit - 3 {
		name := uuid.NewString()
		f.invite(tm.id, tm.owner, address(name), org.Member)
		ids, tokens = append(ids, f.user(name)), append(tokens, f.token(address(name)))
	}
	f.concurrently(32, func(i int) error {
		switch {
		case i < len(ids):
			return errorOf(f.Accept(t.Context(), ids[i], tokens[i]))
		case i == 20:
			return f.Remove(t.Context(), tm.id, tm.member, tm.member)
		default:
			return errorOf(f.Invite(t.Context(), tm.id, tm.owner, org.NewInvitation{Email: uuid.NewString() + "@example.com", Role: org.Member}))
		}
	})
	members, open := f.count(`memberships`), f.count(`invitations WHERE outcome IS NULL`)
	if members != limit-1 || members+open > limit {
		t.Errorf("%d members and %d invitations, want %d and at most %d together", members, open, limit-1, limit)
	}
}

func TestInvitation_OutlivesInviter(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	f.invite(tm.id, tm.owner, address("Zoe"), org.Member)
	f.db.MustExec(`UPDATE invitations SET invited_by = NULL`)
	if err := errorOf(f.Accept(t.Context(), f.user("Zoe"), f.token(address("Zoe")))); err != nil {
		t.Errorf("of a deleted account: %v", err)
	}
}
