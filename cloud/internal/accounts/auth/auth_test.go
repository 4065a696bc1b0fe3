package auth_test

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
)

// cheap is the minimal cost of a password hash.
var cheap = auth.Cost{MemoryKiB: 64, Iterations: 1}

// members are the roles of users by organization.
type members map[uuid.UUID][]uuid.UUID

func (m members) Organizations(_ context.Context, userID uuid.UUID) ([]uuid.UUID, error) {
	return m[userID], nil
}

type fixture struct {
	*auth.Service
	db      *sqlx.DB
	clock   *clock.Fake
	members members
	mail    *mailbox
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	f := fixture{
		db: dbtest.New(t), members: members{}, mail: &mailbox{},
		clock: clock.NewFake(time.Date(2026, 11, 21, 10, 15, 0, 0, time.UTC)),
	}
	service, err := auth.New(f.db, f.clock, f.members, cheap)
	if err != nil {
		t.Fatal(err)
	}
	f.db.MustExec(`CREATE TABLE mailbox (number serial, recipient text, subject text, body text)`)
	service.Mailer, service.Public, service.SignUpPolicy = f.mail, &url.URL{Scheme: "https", Host: "svc.example"}, auth.SignUpOpen
	f.Service = service
	return f
}

// home is the default address of requests.
var home = auth.Client{Address: "203.0.113.7", UserAgent: "Mozilla/5.0"}

var ada = auth.NewUser{Email: "Ada@Example.com", Password: "correct horse battery", Name: "Ada"}

func (f fixture) signUp(t *testing.T) auth.Session {
	t.Helper()
	session, err := f.SignUp(t.Context(), home, ada)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func (f fixture) signIn(t *testing.T) auth.Session {
	t.Helper()
	session, err := f.SignIn(t.Context(), home, ada.Email, ada.Password)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// organization creates an organization with the user as a member.
func (f fixture) organization(t *testing.T, userID uuid.UUID) uuid.UUID {
	t.Helper()
	id := uuid.Must(uuid.NewV7())
	f.db.MustExec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, $2, $2, now())`, id, id.String())
	f.members[userID] = append(f.members[userID], id)
	return id
}

func wantKind(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Errorf("error %v, want one of kind %d", err, kind)
	}
}

func TestSignUp_CreatesAccountAndSession(t *testing.T) {
	f := newFixture(t)
	got := f.signUp(t)
	if got.User.Email != "ada@example.com" || got.User.Name != "Ada" || got.ActiveOrgID != uuid.Nil {
		t.Errorf("session %+v", got)
	}
	if want := f.clock.Now().Add(7 * 24 * time.Hour); !got.ExpiresAt.Equal(want) {
		t.Errorf("expires at %v, want %v", got.ExpiresAt, want)
	}
	read, err := f.Session(t.Context(), got.Token)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, read); diff != "" {
		t.Errorf("the session reads differently (-begun +read):\n%s", diff)
	}
}

func TestSignUp_RefusesTakenAddressCaseInsensitively(t *testing.T) {
	f := newFixture(t)
	f.signUp(t)
	again := ada
	again.Email = "ADA@example.COM"
	_, err := f.SignUp(t.Context(), home, again)
	wantKind(t, err, fault.Conflict)
}

func TestSignIn_AddressIsCaseInsensitive(t *testing.T) {
	f := newFixture(t)
	first := f.signUp(t)
	second, err := f.SignIn(t.Context(), home, " aDa@eXample.com ", ada.Password)
	if err != nil {
		t.Fatal(err)
	}
	if second.User.ID != first.User.ID {
		t.Errorf("signed in as %v, want %v", second.User.ID, first.User.ID)
	}
	if second.Token == first.Token {
		t.Error("two sessions have the same token")
	}
}

func TestSignOut_EndsOnlyOwnSession(t *testing.T) {
	f := newFixture(t)
	first, second := f.signUp(t), f.signIn(t)
	if err := f.SignOut(t.Context(), first.Token); err != nil {
		t.Fatal(err)
	}
	_, err := f.Authenticate(t.Context(), first.Token)
	wantKind(t, err, fault.Unauthenticated)
	if _, err := f.Authenticate(t.Context(), second.Token); err != nil {
		t.Errorf("the other session: %v", err)
	}
	if err := f.SignOut(t.Context(), first.Token); err != nil {
		t.Errorf("signing out again: %v", err)
	}
}

func TestAuthenticate_RefusesInvalidToken(t *testing.T) {
	f := newFixture(t)
	session := f.signUp(t)
	var hash string
	if err := f.db.Get(&hash, `SELECT token_hash FROM auth_sessions`); err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"", "x", session.Token + "x", session.Token[:42], strings.ToLower(session.Token), hash} {
		_, err := f.Authenticate(t.Context(), token)
		wantKind(t, err, fault.Unauthenticated)
		_, err = f.Session(t.Context(), token)
		wantKind(t, err, fault.Unauthenticated)
		wantKind(t, f.Activate(t.Context(), token, uuid.New()), fault.Unauthenticated)
	}
}

func TestSession_ExpiresAfterSevenDays(t *testing.T) {
	f := newFixture(t)
	session := f.signUp(t)
	f.clock.Advance(7*24*time.Hour - time.Microsecond)
	if _, err := f.Sweep(t.Context()); err != nil { // deletes other rows of the sign-up
		t.Error(err)
	}
	if _, err := f.Authenticate(t.Context(), session.Token); err != nil {
		t.Errorf("just before its end: %v", err)
	}
	if n, err := f.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("the sweep removed %d, %v; want none yet", n, err)
	}
	f.clock.Advance(time.Microsecond)
	_, err := f.Authenticate(t.Context(), session.Token)
	wantKind(t, err, fault.Unauthenticated)
	wantKind(t, f.Activate(t.Context(), session.Token, uuid.New()), fault.Unauthenticated)
	if n, err := f.Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("the sweep removed %d, %v; want 1", n, err)
	}
}

func TestSignIn_RestoresLastOrganization(t *testing.T) {
	f := newFixture(t)
	u := f.signUp(t).User.ID
	active := func() uuid.UUID { return f.signIn(t).ActiveOrgID }

	if got := active(); got != uuid.Nil {
		t.Errorf("without an organization: active %v", got)
	}
	first := f.organization(t, u)
	if got := active(); got != first {
		t.Errorf("with one: %v, want %v", got, first)
	}
	second := f.organization(t, u)
	if got := active(); got != uuid.Nil {
		t.Errorf("with two and none of them used: %v, want none", got)
	}
	if err := f.Activate(t.Context(), f.signIn(t).Token, second); err != nil {
		t.Fatal(err)
	}
	if got := active(); got != second {
		t.Errorf("after the second was active: %v, want %v", got, second)
	}
	f.members[u] = []uuid.UUID{first}
	if got := active(); got != first {
		t.Errorf("after leaving the second: %v, want the only one left, %v", got, first)
	}
	f.members[u] = nil
	if got := active(); got != uuid.Nil {
		t.Errorf("after leaving both: %v, want none", got)
	}
}

func TestActivate_AffectsOnlyThisSession(t *testing.T) {
	f := newFixture(t)
	account := f.signUp(t)
	orgID, other := f.organization(t, account.User.ID), f.organization(t, account.User.ID)
	two := f.signIn(t)
	if err := f.Activate(t.Context(), account.Token, orgID); err != nil {
		t.Fatal(err)
	}
	if err := f.Activate(t.Context(), two.Token, other); err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]uuid.UUID{account.Token: orgID, two.Token: other} {
		caller, err := f.Authenticate(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		if caller.SessionID == uuid.Nil {
			t.Error("the caller's session has no id")
		}
		caller.SessionID = uuid.Nil
		if diff := cmp.Diff(auth.Caller{UserID: account.User.ID, Session: token, ActiveOrgID: want}, caller); diff != "" {
			t.Errorf("caller (-want +got):\n%s", diff)
		}
	}
	f.members[account.User.ID] = nil
	session, err := f.Session(t.Context(), account.Token)
	if err != nil || session.ActiveOrgID != uuid.Nil {
		t.Errorf("after leaving: active %v, %v; want none", session.ActiveOrgID, err)
	}
}

func TestActivate_DoesNotRecreateEndedSession(t *testing.T) {
	f := newFixture(t)
	u := f.signUp(t).User.ID
	orgID := f.organization(t, u)
	for range 20 {
		session := f.signIn(t)
		var both sync.WaitGroup
		both.Go(func() { _ = f.Activate(t.Context(), session.Token, orgID) })
		both.Go(func() { _ = f.SignOut(t.Context(), session.Token) })
		both.Wait()
		_, err := f.Authenticate(t.Context(), session.Token)
		wantKind(t, err, fault.Unauthenticated)
	}
}

func TestSessions_DeletedWithUser(t *testing.T) {
	f := newFixture(t)
	session := f.signUp(t)
	f.db.MustExec(`DELETE FROM users`)
	_, err := f.Authenticate(t.Context(), session.Token)
	wantKind(t, err, fault.Unauthenticated)
}

func TestSecrets_AreNotStoredInPlaintext(t *testing.T) {
	f := newFixture(t)
	session := f.signUp(t)
	var rows []string
	err := f.db.Select(&rows, `
		SELECT u::text FROM users u
		UNION ALL SELECT s::text || encode(s.data, 'escape') FROM auth_sessions s`)
	if err != nil || len(rows) != 2 {
		t.Fatalf("dump: %v, %v", rows, err)
	}
	for _, row := range rows {
		if strings.Contains(row, session.Token) || strings.Contains(row, ada.Password) {
			t.Errorf("a plaintext secret is in %s", row)
		}
	}
}
