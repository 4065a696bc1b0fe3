package auth_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/shared/fault"
)

func TestSignIn_WrongPasswordAndUnknownAddressAnswerAlike(t *testing.T) {
	f := newFixture(t)
	f.signUp(t)
	_, wrong := f.SignIn(t.Context(), home, ada.Email, "not the password")
	_, unknown := f.SignIn(t.Context(), home, "eve@example.com", ada.Password)
	_, decoy := f.SignIn(t.Context(), home, "eve@example.com", "") // the password of the decoy
	wantKind(t, wrong, fault.Unauthenticated)
	for _, err := range []error{unknown, decoy} {
		wantKind(t, err, fault.Unauthenticated)
		if err == nil || err.Error() != wrong.Error() {
			t.Errorf("unknown address: error %q, wrong password: error %q; want the same", err, wrong)
		}
	}
}

// costMiB is the memory of one password hash of an expensive fixture. The tests compare
// allocated memory instead of time, because it is proportional to the number of hashes
// and more reliable.
const costMiB = 16

// expensive returns a fixture with a cost of costMiB.
func expensive(t *testing.T) fixture {
	t.Helper()
	f := newFixture(t)
	service, err := auth.New(f.db, f.clock, f.members, auth.Cost{MemoryKiB: costMiB * 1024, Iterations: 1})
	if err != nil {
		t.Fatal(err)
	}
	service.Mailer, service.SignUpPolicy = f.mail, auth.SignUpOpen
	f.Service = service
	f.signUp(t)
	return f
}

// allocated returns the memory that the work allocates, in MiB.
func allocated(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) >> 20
}

// TestSignIn_RefusalsTakeConstantWork also covers a paused address: the work must not
// reveal that a known network may still try the password.
func TestSignIn_RefusalsTakeConstantWork(t *testing.T) {
	f := expensive(t)
	attempt := func(client auth.Client, email, password string, kind fault.Kind) {
		t.Helper()
		var err error
		took := allocated(func() { _, err = f.SignIn(t.Context(), client, email, password) })
		wantKind(t, err, kind)
		if took < costMiB || took > costMiB+1 {
			t.Errorf("refusal for %s: allocated %d MiB, want %d", email, took, costMiB)
		}
	}
	for _, email := range []string{ada.Email, "eve@example.com"} {
		for range 5 {
			attempt(clientAt("198.51.100.1"), email, "not the password", fault.Unauthenticated)
		}
		for _, client := range []auth.Client{home, clientAt("198.51.100.2")} {
			attempt(client, email, "not the password", fault.RateLimited)
		}
		attempt(clientAt("198.51.100.2"), email, ada.Password, fault.RateLimited)
	}
}

func TestSignIn_PausedClientCostsNoHashing(t *testing.T) {
	f := expensive(t)
	caller, err := f.Authenticate(t.Context(), f.signIn(t).Token)
	if err != nil {
		t.Fatal(err)
	}
	guess := func() error {
		_, err := f.SignIn(t.Context(), home, "eve@example.com", "not the password")
		return err
	}
	// Five are answered; the following refusals count as failures of the client, too.
	for range 20 {
		if err := guess(); err == nil {
			t.Fatal("the sign-in succeeded")
		}
	}
	for range 60 {
		_, _ = f.SignUp(t.Context(), home, ada)
	}
	took := allocated(func() { _, err = f.SignUp(t.Context(), home, ada) })
	wantRetry(t, err, time.Hour)
	if took > 1 {
		t.Errorf("refused sign-up: allocated %d MiB, want none", took)
	}
	for name, attempt := range map[string]func() error{
		"sign-in": guess,
		"reset":   func() error { return f.ResetPassword(t.Context(), home, "wrong", another) },
		"change":  func() error { return f.ChangePassword(t.Context(), home, caller, "wrong", another) },
	} {
		took := allocated(func() { err = attempt() })
		wantRetry(t, err, 30*time.Second)
		if took > 1 {
			t.Errorf("refused %s: allocated %d MiB, want none", name, took)
		}
	}
	took = allocated(func() { err = f.ResetPassword(t.Context(), clientAt("198.51.100.1"), "wrong", another) })
	wantKind(t, err, fault.Validation)
	if took > 1 {
		t.Errorf("refused token: allocated %d MiB, want none", took)
	}
}

func TestSignIn_ConcurrentAttemptsHashWithinLimit(t *testing.T) {
	f := expensive(t)
	var got map[fault.Kind]int
	took := allocated(func() {
		got = outcomes(func(i int) error {
			_, err := f.SignIn(t.Context(), home, fmt.Sprintf("%d@example.com", i), "not the password")
			return err
		})
	})
	if got[fault.Unauthenticated] != 20 || got[fault.RateLimited] != 12 {
		t.Errorf("%v, want 20 answers and 12 refusals", got)
	}
	if took >= 21*costMiB {
		t.Errorf("32 concurrent attempts allocated %d MiB, want about %d (20 hashes)", took, 20*costMiB)
	}
}

func TestHash_StopsWaitingWhenContextEnds(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.SignIn(ctx, home, ada.Email, ada.Password); err == nil {
		t.Error("a canceled request signed in")
	}
}

func TestNetworkLock_IsPerNetwork(t *testing.T) {
	f := newFixture(t)
	slow := &slowMailer{subject: verifySubject, holdUp: holdUp{reached: make(chan struct{}), resume: make(chan struct{})}}
	f.Mailer = slow
	var signUp error
	var under sync.WaitGroup
	under.Go(func() { _, signUp = f.SignUp(t.Context(), home, ada) })
	<-slow.reached
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := f.SignIn(ctx, home, "eve@example.com", "not the password"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("from the same network: %v, want the context's error", err)
	}
	_, err := f.SignIn(t.Context(), clientAt("198.51.100.1"), "eve@example.com", "not the password")
	wantKind(t, err, fault.Unauthenticated)
	close(slow.resume)
	under.Wait()
	if signUp != nil {
		t.Fatal(signUp)
	}
	f.signIn(t)
}
