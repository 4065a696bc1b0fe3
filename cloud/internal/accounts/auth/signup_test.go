package auth_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/shared/fault"
)

// invited contains the tokens of invitations by address.
type invited map[string]string

func (i invited) HasInvitation(_ context.Context, email string) (bool, error) {
	return i[email] != "", nil
}

func (i invited) IsInvitation(_ context.Context, token, email string) (bool, error) {
	return i[email] != "" && i[email] == token, nil
}

func TestSignUp_FollowsPolicy(t *testing.T) {
	const good = "the token of the mail"
	for _, c := range []struct {
		rule         auth.SignUpPolicy
		others       bool   // whether another user exists
		token        string // in the request body
		want         fault.Kind
		identity     bool // whether an OpenID identity can sign up without an invitation
		wantIdentity bool // whether it can with an invitation
	}{
		{auth.SignUpFirst, false, "", 0, true, true},
		{auth.SignUpFirst, true, "", fault.Forbidden, false, true},
		{auth.SignUpFirst, true, good, 0, false, true},
		{auth.SignUpFirst, true, "another", fault.Validation, false, true},
		{auth.SignUpInvite, false, "", fault.Forbidden, false, true},
		{auth.SignUpInvite, true, good, 0, false, true},
		{auth.SignUpInvite, true, "another", fault.Validation, false, true},
		{auth.SignUpOpen, true, "", 0, true, true},
		{auth.SignUpOpen, true, good, 0, true, true},
		{auth.SignUpClosed, false, "", fault.Forbidden, false, false},
		{auth.SignUpClosed, true, good, fault.Forbidden, false, false},
	} {
		t.Run(fmt.Sprintf("%q, others %v, token %q", c.rule, c.others, c.token), func(t *testing.T) {
			f := newFixture(t)
			f.SignUpPolicy, f.Invitations = c.rule, invited{"ada@example.com": good}
			if c.others {
				f.db.MustExec(`INSERT INTO users (id, email, name, created_at) VALUES (gen_random_uuid(), 'first@example.com', 'First', now())`)
			}
			_, err := f.SignInAs(t.Context(), home, auth.Identity{Issuer: "i", Subject: "other", Email: "eve@example.com", EmailVerified: true})
			if (err == nil) != c.identity || err != nil && !fault.Is(err, fault.Forbidden) {
				t.Errorf("an identity without an invitation: %v", err)
			}
			f.db.MustExec(`DELETE FROM users WHERE email = 'eve@example.com'`)
			_, err = f.SignInAs(t.Context(), home, auth.Identity{Issuer: "i", Subject: "guest", Email: "Ada@example.com", EmailVerified: true})
			if (err == nil) != c.wantIdentity || err != nil && !fault.Is(err, fault.Forbidden) {
				t.Errorf("an identity with an invitation: %v", err)
			}
			f.db.MustExec(`DELETE FROM users WHERE email = 'ada@example.com'`)
			n := ada
			n.Invitation = c.token
			session, err := f.SignUp(t.Context(), home, n)
			if c.want != 0 {
				wantKind(t, err, c.want)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			// The token was mailed, so it verifies the address without another mail.
			if proved := session.User.EmailVerifiedAt != nil; proved != (c.token != "") {
				t.Errorf("the address is verified: %v", proved)
			}
			if mails := len(f.mails(t, verifySubject)); (mails == 0) != (c.token != "") {
				t.Errorf("got %d verification mails, want none", mails)
			}
		})
	}
}

func TestSignUp_OnlyOneFirstUser(t *testing.T) {
	for range 5 {
		f := newFixture(t)
		f.SignUpPolicy = auth.SignUpFirst
		var all sync.WaitGroup
		results := make(chan error, 12)
		for i := range cap(results) {
			all.Go(func() {
				var err error
				if i%3 == 0 {
					_, err = f.SignInAs(t.Context(), clientAt(fmt.Sprintf("198.51.100.%d", i)),
						auth.Identity{Issuer: "i", Subject: fmt.Sprint(i), Email: fmt.Sprintf("%d@example.com", i), EmailVerified: true})
				} else {
					n := ada
					n.Email = fmt.Sprintf("%d@example.com", i)
					_, err = f.SignUp(t.Context(), clientAt(fmt.Sprintf("198.51.100.%d", i)), n)
				}
				results <- err
			})
		}
		all.Wait()
		close(results)
		first := 0
		for err := range results {
			if err == nil {
				first++
			} else {
				wantKind(t, err, fault.Forbidden)
			}
		}
		if first != 1 {
			t.Errorf("%d users signed up as the first user, want 1", first)
		}
	}
}

func TestSignUp_InvitationVerifiesOnlyMailedAddress(t *testing.T) {
	f := newFixture(t)
	f.SignUpPolicy = auth.SignUpInvite
	for _, without := range []bool{false, true} {
		n := ada
		n.Email, n.Invitation = fmt.Sprintf("%v@example.com", without), "good"
		f.WithoutMail, f.Invitations = without, invited{n.Email: "good"}
		session, err := f.SignUp(t.Context(), home, n)
		if err != nil || (session.User.EmailVerifiedAt != nil) == without {
			t.Errorf("without mail %v: %+v, %v", without, session.User, err)
		}
	}
}

func TestSignUp_InvalidInvitationsPauseClient(t *testing.T) {
	f := newFixture(t)
	tokens := invited{}
	f.SignUpPolicy, f.Invitations = auth.SignUpInvite, tokens
	for i := range 30 {
		n := ada
		n.Email, n.Invitation = fmt.Sprintf("%d@example.com", i), "good"
		tokens[n.Email] = "good"
		if _, err := f.SignUp(t.Context(), home, n); err != nil {
			t.Fatalf("guest %d: %v", i, err)
		}
	}
	n := ada
	n.Invitation = "guessed"
	for range 20 {
		_, err := f.SignUp(t.Context(), home, n)
		wantKind(t, err, fault.Validation)
	}
	_, err := f.SignUp(t.Context(), home, n)
	wantKind(t, err, fault.RateLimited)
}

// TestSignUp_KeepsDistinctMailboxesApart: the Kelvin sign is not the letter k.
func TestSignUp_KeepsDistinctMailboxesApart(t *testing.T) {
	f := newFixture(t)
	k, kelvin := ada, ada
	k.Email, kelvin.Email = "k@example.com", "\u212A@example.com"
	for _, n := range []auth.NewUser{k, kelvin} {
		if _, err := f.SignUp(t.Context(), home, n); err != nil {
			t.Errorf("%s: %v", n.Email, err)
		}
	}
	session, err := f.SignIn(t.Context(), home, "\u212A@EXAMPLE.com", ada.Password)
	if err != nil || session.User.Email != "\u212A@example.com" {
		t.Errorf("signed in as %s, %v", session.User.Email, err)
	}
	f.db.MustExec(`UPDATE users SET email_verified_at = now()`)
	linked, err := f.SignInAs(t.Context(), home, auth.Identity{Issuer: "i", Subject: "s", Email: "K@example.com", EmailVerified: true})
	if err != nil || linked.User.Email != "k@example.com" {
		t.Errorf("linked to %s, %v", linked.User.Email, err)
	}
	other, err := f.SignInAs(t.Context(), home, auth.Identity{Issuer: "i", Subject: "t", Email: "\u0130@example.com", EmailVerified: true})
	if err != nil || other.User.Email != "\u0130@example.com" {
		t.Errorf("linked to %s, %v", other.User.Email, err)
	}
}

func TestSignUp_RefusesWeakPasswords(t *testing.T) {
	f := newFixture(t)
	session := f.signUp(t)
	caller := f.caller(t, session)
	for _, password := range []string{
		strings.Repeat(" ", 12), "   abcdef   ", "aaaaaaaaaaaa", "ababababab", "svcsvcsvcsvc", "svc-svc-svc", "1234567890",
		"ada@example.com", "ADA@Example.com", "ada@example.com1", "adaLovelace", "ada lovelace 1", "Password123", "svc-cloud1", "qwertyuiop",
	} {
		n := auth.NewUser{Email: "Ada@Example.com", Password: password, Name: "Ada Lovelace"}
		if password == "adaLovelace" {
			n.Email = "adalovelace@example.com"
		}
		_, err := f.SignUp(t.Context(), clientAt("198.51.100.1"), n)
		wantWeak(t, password, err, "password")
	}
	for _, password := range []string{strings.Repeat(" ", 12), "ada@example.com", "aaaaaaaaaaaa"} {
		wantWeak(t, password, f.ChangePassword(t.Context(), home, caller, ada.Password, password), "newPassword")
		token := f.forgot(t)
		wantWeak(t, password, f.ResetPassword(t.Context(), home, token, password), "password")
		if err := f.ResetPassword(t.Context(), home, token, ada.Password); err != nil {
			t.Errorf("the refused sign-up used up the token: %v", err)
		}
		caller = f.caller(t, f.signIn(t))
	}
	for i, password := range []string{"correct horse battery", "hJ7-kQ2_xZ", "ada goes to the sea", "änderung über alles"} {
		n := auth.NewUser{Email: fmt.Sprintf("ada%d@example.com", i), Password: password, Name: "Ada"}
		if _, err := f.SignUp(t.Context(), clientAt("198.51.100.2"), n); err != nil {
			t.Errorf("%q: %v", password, err)
		}
	}
}

func wantWeak(t *testing.T, password string, err error, field string) {
	t.Helper()
	if !fault.Is(err, fault.Validation) {
		t.Errorf("%q: %v, want a validation error", password, err)
		return
	}
	if d := fault.From(err).Details; len(d) != 1 || d[0].Field != field || d[0].Code != fault.Custom || d[0].Received != nil {
		t.Errorf("%q: details %+v", password, d)
	}
}
