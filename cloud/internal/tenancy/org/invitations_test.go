package org_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/tenancy/org"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

func TestInvite_MailsTokenAndStoresHash(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	f.db.MustExec(`UPDATE organizations SET name = E'Engines\r\nBcc:\x1b eve@example.com\n\nhttps://evil.example'`)
	now := f.clock.Now()
	got := f.invite(tm.id, tm.admin, " New.Person@Example.com", org.Member)
	want := org.Invitation{ID: got.ID, Email: "new.person@example.com", Role: org.Member,
		InvitedBy: uuid.NullUUID{UUID: tm.admin, Valid: true}, CreatedAt: now, ExpiresAt: now.Add(7 * 24 * time.Hour)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("invitation (-want +got):\n%s", diff)
	}
	listed, err := f.Invitations(t.Context(), tm.id, page.Request{Page: 1, Limit: 10})
	if diff := cmp.Diff([]org.Invitation{want}, listed.Items); diff != "" || err != nil || listed.Total != 1 {
		t.Errorf("listed %v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{"invitation.created " + got.ID.String()}, f.recorded()); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
	m := f.mail.mails[0]
	if len(f.mail.mails) != 1 || m.recipient != want.Email || m.subject != `Invitation to join "Engines Bcc: eve@ example. com https: / / evil. example"` {
		t.Errorf("mailed %+v", f.mail.mails)
	}
	token := f.token(want.Email)
	if !strings.Contains(m.text, "\nhttps://cloud.example.com/account/accept-invitation#token="+token+"\n") ||
		!strings.Contains(m.text, `"Adam" invites you to join "Engines Bcc: eve@ example. com https: / / evil. example" as a member.`) ||
		!strings.Contains(m.text, "28 November 2026") || strings.Count(m.text, token) != 1 {
		t.Errorf("got the mail %q", m.text)
	}
	if f.count(`invitations WHERE token_hash = sha256($1)`, []byte(token)) != 1 {
		t.Error("the stored hash is not the SHA-256 of the token")
	}
}

func TestInvite_ReturnsLinkWithoutMail(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	if with := f.invite(tm.id, tm.owner, "first@example.com", org.Member); with.AcceptURL != "" {
		t.Errorf("with mail, the inviter gets the link %q", with.AcceptURL)
	}
	f.WithoutMail = true
	got := f.invite(tm.id, tm.owner, "second@example.com", org.Member)
	if want := "https://cloud.example.com/account/accept-invitation#token=" + f.token("second@example.com"); got.AcceptURL != want {
		t.Errorf("the link is %q, want %q", got.AcceptURL, want)
	}
}

func TestInvite_RolePermissions(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	f.limitMembers(tm.id, nil)
	for actor, id := range tm.id3() {
		for _, role := range []org.Role{org.Owner, org.Admin, org.Member} {
			email := string(actor+role) + "@example.com"
			_, err := f.Invite(t.Context(), tm.id, id, org.NewInvitation{Email: email, Role: role})
			if actor == org.Owner || actor == org.Admin && role == org.Member {
				if err != nil {
					t.Errorf("%s invites %s: %v", actor, role, err)
				}
				continue
			}
			wantKind(t, string(actor+" invites "+role), err, fault.Forbidden, "Only an owner")
		}
	}
	if n := f.count(`invitations`); n != 4 || len(f.mail.mails) != 4 {
		t.Errorf("%d invitations and %d mails, want 4", n, len(f.mail.mails))
	}
	_, err := f.Invite(t.Context(), tm.id, f.user("Zoe"), org.NewInvitation{Email: "x@example.com", Role: org.Member})
	wantKind(t, "another user", err, fault.NotFound, "organization")
}

// TestInvite_DoesNotRevealAccounts invites an address with an account and one without,
// and compares the answers, mails, records and tables.
func TestInvite_DoesNotRevealAccounts(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	f.limitMembers(tm.id, nil)
	took := map[string]time.Duration{}
	for round := range 60 {
		for _, kind := range []string{"known", "nobody"} {
			id := f.user("known")
			email := kind + "@example.com"
			began := time.Now()
			got, err := f.Invite(t.Context(), tm.id, tm.owner, org.NewInvitation{Email: email, Role: org.Member})
			if spent := time.Since(began); round == 0 || spent < took[kind] {
				took[kind] = spent
			}
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			m, token := f.mail.mails[len(f.mail.mails)-1], f.token(email)
			if got.Email != email || m.subject != `Invitation to join "Analytical Engines"` ||
				len(strings.ReplaceAll(m.text, token, "")) != len(f.mail.mails[0].text)-len(token) {
				t.Fatalf("%s: %+v and %+v", kind, got, m)
			}
			_, again := f.Invite(t.Context(), tm.id, tm.owner, org.NewInvitation{Email: email, Role: org.Member})
			wantKind(t, kind+" again", again, fault.Conflict, "This address already has an open invitation")
			f.db.MustExec(`DELETE FROM users WHERE id = $1`, id)
			f.db.MustExec(`DELETE FROM invitations`)
		}
	}
	t.Logf("at best: an address with an account %v, one without %v", took["known"], took["nobody"])
	if known, nobody := took["known"], took["nobody"]; known > 2*nobody || nobody > 2*known {
		t.Errorf("minimum duration: %v with an account, %v without one", known, nobody)
	}
}

func TestInvite_RefusesMembersAndInvitedOfSameOrganization(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	f.invite(tm.id, tm.owner, "new@example.com", org.Member)
	zoe := f.user("Zoe")
	elsewhere := f.create(zoe, "Elsewhere", "elsewhere").ID
	for email, text := range map[string]string{"MARY@example.com": "A member", "New@Example.com": "Revoke it before you send another"} {
		_, err := f.Invite(t.Context(), tm.id, tm.owner, org.NewInvitation{Email: email, Role: org.Admin})
		wantKind(t, email, err, fault.Conflict, text)
		f.invite(elsewhere, zoe, email, org.Member)
	}
	if len(f.mail.mails) != 3 {
		t.Errorf("%d mails, want 3", len(f.mail.mails))
	}
}

func TestInvite_AfterRevocationOrExpiry(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	f.limitMembers(tm.id, new(4))
	first := f.invite(tm.id, tm.owner, "new@example.com", org.Member)
	full := func(what string) {
		t.Helper()
		_, err := f.Invite(t.Context(), tm.id, tm.owner, org.NewInvitation{Email: "other@example.com", Role: org.Member})
		wantKind(t, what, err, fault.Forbidden, "reached the member limit")
		want := fault.Detail{Field: "memberLimit", Code: fault.Custom, Message: "the limit is reached", Constraint: map[string]any{"current": 4, "limit": 4}}
		if diff := cmp.Diff([]fault.Detail{want}, fault.From(err).Details); diff != "" {
			t.Errorf("%s: details (-want +got):\n%s", what, diff)
		}
	}
	full("one invited")
	if err := f.RevokeInvitation(t.Context(), tm.id, tm.admin, first.ID); err != nil {
		t.Fatal(err)
	}
	second := f.invite(tm.id, tm.owner, "new@example.com", org.Member)
	full("invited again")
	f.clock.Advance(second.ExpiresAt.Sub(f.clock.Now()) - time.Microsecond)
	full("just before it expires")
	f.clock.Advance(time.Microsecond)
	listed, err := f.Invitations(t.Context(), tm.id, page.Request{Page: 1, Limit: 10})
	if err != nil || listed.Total != 0 || len(listed.Items) != 0 {
		t.Errorf("listed %+v, %v", listed, err)
	}
	f.invite(tm.id, tm.owner, "new@example.com", org.Member)
	full("invited a third time")
	f.limitMembers(tm.id, nil)
	f.invite(tm.id, tm.owner, "other@example.com", org.Member)
}

func (u *users) SpendInvitation(_ context.Context, _ *sqlx.Tx, orgID, inviterID uuid.UUID, email string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.spent = append(u.spent, fmt.Sprint(orgID, inviterID, email))
	return u.refusal
}

func TestInvite_RateLimited(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	f.invite(tm.id, tm.admin, "New@Example.com", org.Member)
	_, err := f.Invite(t.Context(), tm.id, tm.admin, org.NewInvitation{Email: "new@example.com", Role: org.Member})
	wantKind(t, "again", err, fault.Conflict, "already has an open invitation")
	if diff := cmp.Diff([]string{fmt.Sprint(tm.id, tm.admin, "new@example.com")}, f.users.spent); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	f.users.refusal = fault.New(fault.RateLimited, "Too many.")
	_, err = f.Invite(t.Context(), tm.id, tm.admin, org.NewInvitation{Email: "other@example.com", Role: org.Member})
	wantKind(t, "too many", err, fault.RateLimited, "Too many")
	if n := f.count(`invitations`); n != 1 || len(f.mail.mails) != 1 {
		t.Errorf("%d invitations and %d mails, want 1", n, len(f.mail.mails))
	}
}

func TestInvitationMail_NamesAreShortAndNotLinks(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	for name, want := range map[string]string{
		"Acme Inc.":                 `"Acme Inc."`,
		"R&D: Berlin":               `"R&D: Berlin"`,
		"www.evil.example":          `"www. evil. example"`,
		"evil.example/pay?now=1":    `"evil. example/ pay?now=1"`,
		`A" and pay at "evil`:       `"A and pay at evil"`,
		"a\u202eb":                  `"a b"`,
		strings.Repeat("Pay. ", 25): `"` + strings.Repeat("Pay. ", 11) + `Pay.…"`,
	} {
		f.db.MustExec(`UPDATE organizations SET name = $1`, name)
		f.db.MustExec(`UPDATE users SET name = $1 WHERE id = $2`, name, tm.owner)
		f.db.MustExec(`DELETE FROM invitations`)
		f.invite(tm.id, tm.owner, "new@example.com", org.Member)
		m := f.mail.mails[len(f.mail.mails)-1]
		if m.subject != "Invitation to join "+want || !strings.Contains(m.text, "\n"+want+" invites you to join "+want+" as a member.\n") {
			t.Errorf("name %q: got subject %s and text %s", name, m.subject, m.text)
		}
	}
}

func TestInvite_RolledBackWhenMailFails(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	f.mail.err = errors.New("no outbox")
	_, err := f.Invite(t.Context(), tm.id, tm.owner, org.NewInvitation{Email: "new@example.com", Role: org.Member})
	if !errors.Is(err, f.mail.err) || f.count(`invitations`) != 0 {
		t.Errorf("error %v, %d invitations", err, f.count(`invitations`))
	}
}

func TestInvite_LimitIsExactConcurrently(t *testing.T) {
	const limit, callers = 9, 32
	f := newFixture(t)
	tm := f.team()
	f.limitMembers(tm.id, new(limit))
	for n := range limit - 3 - 1 {
		f.invite(tm.id, tm.owner, string(rune('a'+n))+"@example.com", org.Member)
	}
	done, refused := f.concurrently(callers, func(int) error {
		return errorOf(f.Invite(t.Context(), tm.id, tm.owner, org.NewInvitation{Email: uuid.NewString() + "@example.com", Role: org.Member}))
	})
	if done != 1 || refused[fault.Forbidden] != callers-1 {
		t.Errorf("%d invited, %v refused; want 1 and %d", done, refused, callers-1)
	}
	if n := f.count(`memberships`) + f.count(`invitations`); n != limit {
		t.Errorf("%d members and invitations, want %d", n, limit)
	}
}

func TestInvite_WaitsForPlanChange(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	change := f.db.MustBegin()
	defer change.Rollback()
	change.MustExec(`UPDATE subscriptions SET base_member_limit = 3 WHERE organization_id = $1`, tm.id)
	result := make(chan error)
	go func() {
		result <- errorOf(f.Invite(t.Context(), tm.id, tm.owner, org.NewInvitation{Email: "new@example.com", Role: org.Member}))
	}()
	for f.count(`pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 0 {
		select {
		case err := <-result:
			t.Fatalf("the call did not wait: %v", err)
		default:
		}
	}
	if err := change.Commit(); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "after the change", <-result, fault.Forbidden, "reached the member limit")
}

func TestInvite_ConcurrentInvitesOfOneAddressCreateOne(t *testing.T) {
	f := newFixture(t)
	tm := f.team()
	done, refused := f.concurrently(16, func(int) error {
		return errorOf(f.Invite(t.Context(), tm.id, tm.owner, org.NewInvitation{Email: "new@example.com", Role: org.Member}))
	})
	if done != 1 || refused[fault.Conflict] != 15 || len(f.mail.mails) != 1 {
		t.Errorf("%d invited, %v refused, %d mails", done, refused, len(f.mail.mails))
	}
}
