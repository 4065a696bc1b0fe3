package auth_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/shared/fault"
)

// besiege fails sign-ins from other networks until the address is paused.
func (f fixture) besiege(t *testing.T, email string) {
	t.Helper()
	var err error
	for i := range 6 {
		_, err = f.SignIn(t.Context(), clientAt(fmt.Sprintf("198.51.100.%d", i)), email, "not the password")
	}
	wantKind(t, err, fault.RateLimited)
}

// TestKnownNetwork_SignInSucceedsDuringPause lets attackers guess for four hours, each
// attempt from a different address.
func TestKnownNetwork_SignInSucceedsDuringPause(t *testing.T) {
	f := newFixture(t)
	f.signUp(t)
	answered := 0
	for second := 0; second < 4*3600; second += 10 {
		_, err := f.SignIn(t.Context(), clientAt(fmt.Sprintf("198.51.%d.%d", second/10/256, second/10%256)), ada.Email, "not the password")
		if fault.Is(err, fault.Unauthenticated) {
			answered++
		}
		if second%120 == 0 {
			f.signIn(t)
		}
		f.clock.Advance(10 * time.Second)
	}
	// Five free attempts, five during the doubling pauses (0.5 to 8 minutes), then four
	// per hour.
	if most := 5 + 5 + 4*4; answered > most {
		t.Errorf("%d guesses of attackers were answered, want at most %d", answered, most)
	}
}

func TestKnownNetwork_GuessesAreLimited(t *testing.T) {
	f := newFixture(t)
	f.signUp(t)
	f.besiege(t, ada.Email)
	for range 5 {
		_, err := f.SignIn(t.Context(), home, ada.Email, "not the password")
		wantKind(t, err, fault.RateLimited)
	}
	_, err := f.SignIn(t.Context(), home, ada.Email, ada.Password)
	wantRetry(t, err, 30*time.Second)
	f.clock.Advance(29 * time.Second)
	_, err = f.SignIn(t.Context(), home, ada.Email, ada.Password)
	wantRetry(t, err, time.Second)
	f.clock.Advance(time.Second) // the pause of the address ends, too; an attacker uses its next attempt
	_, err = f.SignIn(t.Context(), clientAt("198.51.100.9"), ada.Email, "not the password")
	wantKind(t, err, fault.Unauthenticated)
	_, err = f.SignIn(t.Context(), home, ada.Email, "not the password")
	wantRetry(t, err, time.Minute)
	_, err = f.SignIn(t.Context(), home, ada.Email, ada.Password)
	wantRetry(t, err, time.Minute) // after the sixth failure at home
	f.clock.Advance(time.Minute)
	f.signIn(t)
}

// TestKnownNetwork_WrongPasswordAnswersAsElsewhere makes the same attempts from two
// networks: for an account that knows one of them, for an account that knows neither,
// and for an unknown address.
func TestKnownNetwork_WrongPasswordAnswersAsElsewhere(t *testing.T) {
	owner := func(client auth.Client) func(f fixture) {
		return func(f fixture) {
			if _, err := f.SignUp(t.Context(), client, ada); err != nil {
				t.Fatal(err)
			}
		}
	}
	for seed := range uint64(4) {
		answers := map[string][]string{}
		for who, prepare := range map[string]func(f fixture){
			"at home": owner(home), "at home elsewhere": owner(clientAt("192.0.2.1")), "nobody": func(fixture) {},
		} {
			f, dice := newFixture(t), rand.New(rand.NewPCG(seed, 0))
			prepare(f)
			for range 60 {
				f.clock.Advance(time.Duration(dice.IntN(40)) * time.Second)
				client := []auth.Client{home, clientAt("198.51.100.1"), clientAt("198.51.100.2")}[dice.IntN(3)]
				_, err := f.SignIn(t.Context(), client, ada.Email, "not the password")
				answers[who] = append(answers[who], fmt.Sprintf("%v %v", err, fault.From(err).RetryAfter))
			}
		}
		for who, given := range answers {
			if diff := cmp.Diff(answers["nobody"], given); diff != "" {
				t.Errorf("seed %d: an account %s gets other answers than an unknown address (-unknown +account):\n%s", seed, who, diff)
			}
		}
	}
}

func TestKnownNetwork_SignInKeepsOtherFailures(t *testing.T) {
	f := newFixture(t)
	f.signUp(t)
	fail := func(client auth.Client) {
		t.Helper()
		_, err := f.SignIn(t.Context(), client, ada.Email, "not the password")
		wantKind(t, err, fault.Unauthenticated)
	}
	fail(clientAt("198.51.100.1"))
	fail(home)
	f.signIn(t)
	for range 3 {
		fail(clientAt("198.51.100.2"))
	}
	_, err := f.SignIn(t.Context(), clientAt("198.51.100.3"), ada.Email, ada.Password)
	wantRetry(t, err, 30*time.Second)
}

func TestKnownNetwork_ExpiresThirtyDaysAfterLastSignIn(t *testing.T) {
	f := newFixture(t)
	f.signUp(t)
	for range 5 { // the pause does not become shorter
		_, err := f.SignIn(t.Context(), home, ada.Email, "not the password")
		wantKind(t, err, fault.Unauthenticated)
	}
	sweep := func(after time.Duration) {
		t.Helper()
		f.clock.Advance(after)
		if _, err := f.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.besiege(t, ada.Email)
	}
	sweep(30*24*time.Hour - time.Second)
	f.signIn(t)
	sweep(30*24*time.Hour - time.Second)
	f.clock.Advance(time.Second)
	_, err := f.SignIn(t.Context(), home, ada.Email, ada.Password)
	wantKind(t, err, fault.RateLimited)
}

func TestKnownNetwork_AddedByPasswordReset(t *testing.T) {
	f := newFixture(t)
	f.signUp(t)
	away := clientAt("192.0.2.1")
	f.besiege(t, ada.Email)
	_, err := f.SignIn(t.Context(), away, ada.Email, ada.Password)
	wantKind(t, err, fault.RateLimited)
	if err := f.ResetPassword(t.Context(), away, f.forgot(t), another); err != nil {
		t.Fatal(err)
	}
	f.besiege(t, ada.Email)
	if _, err := f.SignIn(t.Context(), away, ada.Email, another); err != nil {
		t.Error(err)
	}
}

func TestChangePassword_NotBlockedByOtherFailures(t *testing.T) {
	f := newFixture(t)
	caller, err := f.Authenticate(t.Context(), f.signUp(t).Token)
	if err != nil {
		t.Fatal(err)
	}
	f.besiege(t, ada.Email)
	if err := f.ChangePassword(t.Context(), clientAt("192.0.2.1"), caller, ada.Password, another); err != nil {
		t.Error(err)
	}
}
