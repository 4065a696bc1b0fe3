package auth_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/shared/fault"
)

// wantRetry checks that err is RateLimited, and for how long.
func wantRetry(t *testing.T, err error, after time.Duration) {
	t.Helper()
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind != fault.RateLimited || f.RetryAfter != after {
		t.Errorf("error %+v, want a retry after %v", err, after)
	}
}

func clientAt(address string) auth.Client { return auth.Client{Address: address} }

func TestSignIn_AccountPauseGrowsAfterFiveFailures(t *testing.T) {
	for name, email := range map[string]string{"known": ada.Email, "unknown": "eve@example.com"} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.signUp(t)
			// A different client each time, so that only the account is limited.
			attempt := func(i int) error {
				_, err := f.SignIn(t.Context(), clientAt(fmt.Sprintf("198.51.100.%d", i)), email, "not the password")
				return err
			}
			for i := range 5 {
				wantKind(t, attempt(i), fault.Unauthenticated)
			}
			for i, pause := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 15 * time.Minute, 15 * time.Minute} {
				wantRetry(t, attempt(10+i), pause)
				f.clock.Advance(pause - time.Second)
				wantRetry(t, attempt(20+i), time.Second) // refused attempts are not counted
				f.clock.Advance(time.Second)
				wantKind(t, attempt(30+i), fault.Unauthenticated)
			}
			f.clock.Advance(30 * time.Minute)
			for i := range 5 {
				wantKind(t, attempt(40+i), fault.Unauthenticated)
			}
			wantRetry(t, attempt(50), 30*time.Second)
		})
	}
}

func TestSignIn_RefusesCorrectPasswordDuringPause(t *testing.T) {
	f := newFixture(t)
	f.signUp(t)
	for range 5 {
		_, err := f.SignIn(t.Context(), clientAt("198.51.100.1"), ada.Email, "not the password")
		wantKind(t, err, fault.Unauthenticated)
	}
	_, err := f.SignIn(t.Context(), clientAt("198.51.100.2"), ada.Email, ada.Password)
	wantRetry(t, err, 30*time.Second)
	f.clock.Advance(30 * time.Second)
	if _, err := f.SignIn(t.Context(), clientAt("198.51.100.2"), ada.Email, ada.Password); err != nil {
		t.Error(err)
	}
}

func TestSignIn_SuccessResetsAccountFailuresOnly(t *testing.T) {
	f := newFixture(t)
	f.signUp(t)
	for round := range 4 {
		for range 4 {
			_, err := f.SignIn(t.Context(), home, ada.Email, "not the password")
			wantKind(t, err, fault.Unauthenticated)
		}
		if _, err := f.SignIn(t.Context(), home, ada.Email, ada.Password); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	for i := range 4 {
		_, err := f.SignIn(t.Context(), home, fmt.Sprintf("%d@example.com", i), "not the password")
		wantKind(t, err, fault.Unauthenticated)
	}
	_, err := f.SignIn(t.Context(), home, ada.Email, ada.Password)
	wantRetry(t, err, 30*time.Second) // 20 failures from one client
}

func TestSignIn_FailuresExpireAfterWindow(t *testing.T) {
	f := newFixture(t)
	f.signUp(t)
	for range 4 {
		_, err := f.SignIn(t.Context(), home, ada.Email, "not the password")
		wantKind(t, err, fault.Unauthenticated)
	}
	f.clock.Advance(15 * time.Minute)
	for range 4 {
		_, err := f.SignIn(t.Context(), home, ada.Email, "not the password")
		wantKind(t, err, fault.Unauthenticated)
	}
	f.signIn(t)
}

func TestClient_PausesAfterTwentyFailures(t *testing.T) {
	for name, addresses := range map[string][2]string{
		"IPv4": {"203.0.113.7", "203.0.113.7"}, "IPv4 in IPv6": {"203.0.113.7", "::ffff:203.0.113.7"},
		"one IPv6 site": {"2001:db8:1:2::1", "2001:db8:1:2:ffff::9"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.signUp(t)
			for i := range 20 {
				client := clientAt(addresses[i%2])
				switch i % 3 {
				case 0:
					_, err := f.SignIn(t.Context(), client, fmt.Sprintf("%d@example.com", i), "not the password")
					wantKind(t, err, fault.Unauthenticated)
				case 1:
					wantKind(t, f.VerifyEmail(t.Context(), client, "wrong"), fault.Validation)
				case 2:
					wantKind(t, f.ResetPassword(t.Context(), client, "wrong", "another password"), fault.Validation)
				}
			}
			client := clientAt(addresses[0])
			_, err := f.SignIn(t.Context(), client, ada.Email, ada.Password)
			wantRetry(t, err, 30*time.Second)
			wantRetry(t, f.VerifyEmail(t.Context(), client, f.last(t, verifySubject)), 30*time.Second)
			if _, err := f.SignIn(t.Context(), clientAt("2001:db8:1:3::1"), ada.Email, ada.Password); err != nil {
				t.Errorf("from another client: %v", err)
			}
			f.clock.Advance(30 * time.Second)
			if _, err := f.SignIn(t.Context(), client, ada.Email, ada.Password); err != nil {
				t.Errorf("after the pause: %v", err)
			}
		})
	}
}

// outcomes runs the attempt 32 times at once and counts its answers by kind;
// -1 is success.
func outcomes(attempt func(i int) error) map[fault.Kind]int {
	var all sync.WaitGroup
	var mu sync.Mutex
	result := map[fault.Kind]int{}
	for i := range 32 {
		all.Go(func() {
			kind := fault.Kind(-1)
			if err := attempt(i); err != nil {
				kind = fault.From(err).Kind
			}
			mu.Lock()
			defer mu.Unlock()
			result[kind]++
		})
	}
	all.Wait()
	return result
}

func TestSignIn_ConcurrentGuessesAreLimited(t *testing.T) {
	f := newFixture(t)
	f.signUp(t)
	var next atomic.Int64
	guess := func(client func(i int) auth.Client, email func(i int) string) map[fault.Kind]int {
		return outcomes(func(i int) error {
			_, err := f.SignIn(t.Context(), client(i), email(i), fmt.Sprintf("guess %d", next.Add(1)))
			return err
		})
	}
	anywhere := func(i int) auth.Client { return clientAt(fmt.Sprintf("198.51.100.%d", i)) }
	got := guess(anywhere, func(int) string { return ada.Email })
	if got[fault.Unauthenticated] != 5 || got[fault.RateLimited] != 27 {
		t.Errorf("at one account: %v, want 5 answers and 27 refusals", got)
	}
	got = guess(func(int) auth.Client { return home }, func(i int) string { return fmt.Sprintf("%d@example.com", i) })
	if got[fault.Unauthenticated] != 20 || got[fault.RateLimited] != 12 {
		t.Errorf("from one client: %v, want 20 answers and 12 refusals", got)
	}
}

func TestSignIn_ConcurrentCorrectPasswordsSucceed(t *testing.T) {
	f := newFixture(t)
	f.signUp(t)
	got := outcomes(func(int) error {
		_, err := f.SignIn(t.Context(), home, ada.Email, ada.Password)
		return err
	})
	if got[-1] != 32 {
		t.Errorf("%v, want 32 sessions", got)
	}
}

func TestSignUp_LimitsAccountsPerClient(t *testing.T) {
	f := newFixture(t)
	for i := range 10 {
		n := ada
		n.Email = fmt.Sprintf("%d@example.com", i%9) // one address is taken
		_, err := f.SignUp(t.Context(), home, n)
		if i < 9 && err != nil {
			t.Fatal(err)
		}
		f.clock.Advance(time.Minute)
	}
	n := ada
	n.Email = "late@example.com"
	_, err := f.SignUp(t.Context(), home, n)
	wantRetry(t, err, 50*time.Minute) // one hour after the first sign-up
	f.clock.Advance(50*time.Minute - time.Second)
	_, err = f.SignUp(t.Context(), home, n)
	wantRetry(t, err, time.Second)
	if _, err := f.SignUp(t.Context(), clientAt("198.51.100.1"), n); err != nil {
		t.Errorf("from another client: %v", err)
	}
	f.clock.Advance(time.Second)
	n.Email = "later@example.com"
	if _, err := f.SignUp(t.Context(), home, n); err != nil {
		t.Errorf("an hour later: %v", err)
	}
}

func TestSweep_DeletesExpiredRows(t *testing.T) {
	f := newFixture(t)
	session := f.signUp(t) // creates a session, a token, a count and a known network
	_, err := f.SignIn(t.Context(), home, "eve@example.com", "not the password")
	wantKind(t, err, fault.Unauthenticated) // creates two counts
	count := func() (n int) {
		t.Helper()
		err := f.db.Get(&n, `SELECT (SELECT count(*) FROM auth_sessions) + (SELECT count(*) FROM auth_tokens) + (SELECT count(*) FROM auth_attempts)`)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, step := range []struct {
		after time.Duration
		left  int
	}{
		{0, 6}, {15*time.Minute - time.Microsecond, 6}, {time.Microsecond, 4}, {45 * time.Minute, 3}, {24 * time.Hour, 2}, {7 * 24 * time.Hour, 1}, {30 * 24 * time.Hour, 0},
	} {
		f.clock.Advance(step.after)
		if _, err := f.Sweep(t.Context()); err != nil || count() != step.left {
			t.Errorf("after %v: got %d rows, %v; want %d", step.after, count(), err, step.left)
		}
	}
	_, err = f.Authenticate(t.Context(), session.Token)
	wantKind(t, err, fault.Unauthenticated)
}
