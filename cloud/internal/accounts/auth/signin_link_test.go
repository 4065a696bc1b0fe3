package auth_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/shared/fault"
)

// linkToken creates a sign-in link for the user and returns its token.
func (f fixture) linkToken(t *testing.T, userID uuid.UUID) string {
	t.Helper()
	link, err := f.CreateSignInLink(t.Context(), userID)
	if err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(link.URL)
	if err != nil {
		t.Fatal(err)
	}
	token, found := strings.CutPrefix(address.Fragment, "token=")
	if !found || address.Host != "svc.example" || address.Path != "/sign-in/link" || address.RawQuery != "" {
		t.Errorf("link %s, want the token in the fragment only", link.URL)
	}
	if want := f.clock.Now().Add(5 * time.Minute); !link.ExpiresAt.Equal(want) {
		t.Errorf("expires at %v, want %v", link.ExpiresAt, want)
	}
	return token
}

func TestSignInLink_SignsInOnce(t *testing.T) {
	f := newFixture(t)
	created := f.signUp(t)
	org := f.organization(t, created.User.ID)
	token := f.linkToken(t, created.User.ID)
	session, err := f.SignInWithLink(t.Context(), home, token)
	if err != nil {
		t.Fatal(err)
	}
	if session.User != created.User || session.ActiveOrgID != org || session.Token == created.Token {
		t.Errorf("session %+v, want a new one of %+v in %v", session, created.User, org)
	}
	if _, err := f.Authenticate(t.Context(), session.Token); err != nil {
		t.Errorf("the new session: %v", err)
	}
	_, err = f.SignInWithLink(t.Context(), home, token)
	wantKind(t, err, fault.Unauthenticated)
	if f.verified(t, created) {
		t.Error("the link, which was not mailed, verified the address")
	}
}

func TestSignInLink_ExpiresAfterFiveMinutes(t *testing.T) {
	f := newFixture(t)
	token := f.linkToken(t, f.signUp(t).User.ID)
	f.clock.Advance(5 * time.Minute)
	_, err := f.SignInWithLink(t.Context(), home, token)
	wantKind(t, err, fault.Unauthenticated)
	f.clock.Advance(-time.Microsecond)
	if _, err := f.SignInWithLink(t.Context(), clientAt("198.51.100.1"), token); err != nil {
		t.Errorf("just before its end: %v", err)
	}
}

func TestSignInLink_UsedOnceConcurrently(t *testing.T) {
	f := newFixture(t)
	token := f.linkToken(t, f.signUp(t).User.ID)
	got := outcomes(func(i int) error {
		_, err := f.SignInWithLink(t.Context(), clientAt(fmt.Sprintf("198.51.100.%d", i)), token)
		return err
	})
	if got[-1] != 1 || got[fault.Unauthenticated] != 31 {
		t.Errorf("%v, want one sign-in and 31 refusals", got)
	}
}

func TestSignInLink_TokensOfOtherPurposesAreRefused(t *testing.T) {
	f := newFixture(t)
	created := f.signUp(t)
	for name, token := range map[string]string{
		"a reset": f.forgot(t), "a verification": f.last(t, verifySubject), "a session": created.Token, "unknown": "nobody",
	} {
		_, err := f.SignInWithLink(t.Context(), home, token)
		if !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("the token of %s: %v", name, err)
		}
	}
	token := f.linkToken(t, created.User.ID)
	wantKind(t, f.ResetPassword(t.Context(), home, token, another), fault.Validation)
	wantKind(t, f.VerifyEmail(t.Context(), home, token), fault.Validation)
	if _, err := f.SignInWithLink(t.Context(), home, token); err != nil {
		t.Errorf("after refused uses for other purposes: %v", err)
	}
}

func TestSignInLink_InvalidatedWithCredentials(t *testing.T) {
	for name, invalidate := range map[string]func(f fixture, s auth.Session) error{
		"the password changes": func(f fixture, s auth.Session) error {
			caller, err := f.Authenticate(t.Context(), s.Token)
			if err != nil {
				return err
			}
			return f.ChangePassword(t.Context(), home, caller, ada.Password, another)
		},
		"the password is reset": func(f fixture, _ auth.Session) error {
			return f.ResetPassword(t.Context(), home, f.forgot(t), another)
		},
		"the user signs out everywhere": func(f fixture, s auth.Session) error { return f.SignOutEverywhere(t.Context(), s.User.ID) },
		"the account is deleted": func(f fixture, s auth.Session) error {
			_, err := f.db.Exec(`DELETE FROM users WHERE id = $1`, s.User.ID)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			session := f.signUp(t)
			token := f.linkToken(t, session.User.ID)
			if err := invalidate(f, session); err != nil {
				t.Fatal(err)
			}
			_, err := f.SignInWithLink(t.Context(), home, token)
			wantKind(t, err, fault.Unauthenticated)
		})
	}
}

func TestSignInLink_DisabledAccountIsRefused(t *testing.T) {
	f := newFixture(t)
	session := f.signUp(t)
	token := f.linkToken(t, session.User.ID)
	f.db.MustExec(`UPDATE users SET disabled_at = now() WHERE id = $1`, session.User.ID)
	_, err := f.SignInWithLink(t.Context(), home, token)
	wantKind(t, err, fault.Forbidden)
}

func TestSignInLink_FailuresCountAsFailedSignIns(t *testing.T) {
	f := newFixture(t)
	token := f.linkToken(t, f.signUp(t).User.ID)
	for range 20 {
		_, err := f.SignInWithLink(t.Context(), home, "wrong")
		wantKind(t, err, fault.Unauthenticated)
	}
	_, err := f.SignInWithLink(t.Context(), home, token)
	wantKind(t, err, fault.RateLimited)
	_, err = f.SignIn(t.Context(), home, ada.Email, ada.Password)
	wantKind(t, err, fault.RateLimited)
	if _, err := f.SignInWithLink(t.Context(), clientAt("198.51.100.1"), token); err != nil {
		t.Errorf("from another network: %v", err)
	}
}

func TestCreateSignInLink_IsLimitedPerUser(t *testing.T) {
	f := newFixture(t)
	user := f.signUp(t).User.ID
	for range 20 {
		f.linkToken(t, user)
	}
	_, err := f.CreateSignInLink(t.Context(), user)
	wantKind(t, err, fault.RateLimited)
	f.clock.Advance(30 * time.Second)
	f.linkToken(t, user)
}

func TestSignInLink_TokenIsStoredHashed(t *testing.T) {
	f := newFixture(t)
	token := f.linkToken(t, f.signUp(t).User.ID)
	var rows []string
	if err := f.db.Select(&rows, `SELECT t::text FROM auth_tokens t WHERE purpose = 'signIn'`); err != nil || len(rows) != 1 {
		t.Fatalf("%d tokens, %v", len(rows), err)
	}
	if strings.Contains(rows[0], token) {
		t.Errorf("the row %s contains the token", rows[0])
	}
}

func TestUpdateUser_ChangesName(t *testing.T) {
	f := newFixture(t)
	session := f.signUp(t)
	got, err := f.UpdateUser(t.Context(), session.User.ID, new("Ada King"))
	if err != nil || got.Name != "Ada King" || got.Email != session.User.Email {
		t.Errorf("got %+v, %v", got, err)
	}
	unchanged, err := f.UpdateUser(t.Context(), session.User.ID, nil)
	if err != nil || unchanged.Name != "Ada King" {
		t.Errorf("without a name: %+v, %v", unchanged, err)
	}
	_, err = f.UpdateUser(t.Context(), uuid.New(), new("Eve"))
	wantKind(t, err, fault.Unauthenticated)
}

func TestCurrentSignUpPolicy_DependsOnFirstUser(t *testing.T) {
	f := newFixture(t)
	want := func(configured, want auth.SignUpPolicy) {
		t.Helper()
		f.SignUpPolicy = configured
		if got, err := f.CurrentSignUpPolicy(t.Context()); err != nil || got != want {
			t.Errorf("configured %q: %q, %v; want %q", configured, got, err, want)
		}
	}
	for _, policy := range []auth.SignUpPolicy{auth.SignUpOpen, auth.SignUpInvite, auth.SignUpClosed} {
		want(policy, policy)
	}
	want(auth.SignUpFirst, auth.SignUpOpen)
	f.signUp(t)
	want(auth.SignUpFirst, auth.SignUpInvite)
}
