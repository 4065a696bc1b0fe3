package auth_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/shared/fault"
)

var adaElsewhere = auth.Identity{
	Issuer: "https://id.example", Subject: "248289761001", Email: "Ada@example.com", EmailVerified: true, Name: "Ada Lovelace",
}

func (f fixture) signInAs(t *testing.T, identity auth.Identity) auth.Session {
	t.Helper()
	session, err := f.SignInAs(t.Context(), home, identity)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func TestSignInAs_CreatesAccountOnce(t *testing.T) {
	f := newFixture(t)
	first := f.signInAs(t, adaElsewhere)
	if u := first.User; u.Email != "ada@example.com" || u.Name != "Ada Lovelace" || u.EmailVerifiedAt == nil {
		t.Errorf("user %+v", u)
	}
	orgID := f.organization(t, first.User.ID)
	moved := adaElsewhere
	moved.Email, moved.EmailVerified = "ada@elsewhere.example", false // the subject identifies the user
	second := f.signInAs(t, moved)
	if second.User.ID != first.User.ID || second.Token == first.Token || second.ActiveOrgID != orgID {
		t.Errorf("second sign-in: got user %+v, want %+v", second, first)
	}
	if second.User.Email != "ada@example.com" {
		t.Errorf("the address changed to %s", second.User.Email)
	}
	for _, password := range []string{"", "anything at all"} {
		_, err := f.SignIn(t.Context(), home, ada.Email, password)
		wantKind(t, err, fault.Unauthenticated)
	}
	wantKind(t, f.ChangePassword(t.Context(), home, f.caller(t, second), "anything", another), fault.Conflict)
	if err := f.ResetPassword(t.Context(), home, f.forgot(t), another); err != nil {
		t.Fatal(err)
	}
	if _, err := f.SignIn(t.Context(), home, ada.Email, another); err != nil {
		t.Errorf("with the first password: %v", err)
	}
}

func TestSignInAs_SubjectIsScopedToIssuer(t *testing.T) {
	f := newFixture(t)
	first := f.signInAs(t, adaElsewhere)
	other := adaElsewhere
	other.Issuer, other.Email = "https://other.example", "eve@example.com"
	if got := f.signInAs(t, other); got.User.ID == first.User.ID {
		t.Error("both identities have the same user")
	}
}

func TestSignInAs_LinksOnlyVerifiedAddresses(t *testing.T) {
	for name, test := range map[string]struct{ here, there bool }{
		"both": {true, true}, "only here": {true, false}, "only there": {false, true}, "neither": {false, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			session := f.signUp(t)
			if test.here {
				if err := f.VerifyEmail(t.Context(), home, f.last(t, verifySubject)); err != nil {
					t.Fatal(err)
				}
			}
			identity := adaElsewhere
			identity.EmailVerified = test.there
			got, err := f.SignInAs(t.Context(), home, identity)
			switch {
			case test.here && test.there:
				if err != nil || got.User.ID != session.User.ID {
					t.Errorf("signed in as %+v, %v; want the existing account", got.User, err)
				}
				return
			case test.there:
				wantKind(t, err, fault.Conflict)
			default:
				wantKind(t, err, fault.Forbidden)
			}
			var links int
			if err := f.db.Get(&links, `SELECT count(*) FROM user_identities`); err != nil || links != 0 {
				t.Errorf("%d identities are linked, %v", links, err)
			}
		})
	}
}

func TestSignInAs_RequiresValidAddress(t *testing.T) {
	f := newFixture(t)
	for _, email := range []string{"", "ada", "Ada <ada@example.com>", "a@b, c@d", strings.Repeat("a", 250) + "@example.com"} {
		identity := adaElsewhere
		identity.Email = email
		_, err := f.SignInAs(t.Context(), home, identity)
		wantKind(t, err, fault.Forbidden)
	}
}

func TestSignInAs_AlwaysSetsName(t *testing.T) {
	f := newFixture(t)
	for name, want := range map[string]string{"": "ada", " \t": "ada", " Ada ": "Ada", strings.Repeat("é", 200): strings.Repeat("é", 128)} {
		identity := adaElsewhere
		identity.Subject, identity.Name = uuid.NewString(), name
		got := f.signInAs(t, identity)
		if got.User.Name != want {
			t.Errorf("name %q: got %q, want %q", name, got.User.Name, want)
		}
		f.db.MustExec(`DELETE FROM users`)
	}
}

func TestSignInAs_ConcurrentCallsCreateOneUser(t *testing.T) {
	f := newFixture(t)
	const rounds = 5 // in the first one, most attempts wait for a connection
	for round := range rounds {
		got := outcomes(func(i int) error {
			identity := adaElsewhere
			identity.Email = fmt.Sprintf("%d@example.com", round)
			identity.Subject = identity.Email
			if i%2 == 1 {
				identity.Issuer = "https://other.example"
			}
			_, err := f.SignInAs(t.Context(), home, identity)
			return err
		})
		if got[-1] != 32 {
			t.Errorf("round %d: %v, want 32 sessions", round, got)
		}
	}
	var users, identities int
	if err := f.db.QueryRow(`SELECT (SELECT count(*) FROM users), (SELECT count(*) FROM user_identities)`).Scan(&users, &identities); err != nil {
		t.Fatal(err)
	}
	if users != rounds || identities != 2*rounds {
		t.Errorf("got %d users and %d identities, want one user and two identities per round", users, identities)
	}
}
