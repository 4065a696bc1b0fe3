package auth_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/browser-svc/svc/cloud/internal/auth"
	"github.com/browser-svc/svc/shared/fault"
)

func TestSignInRefusesAWrongPasswordAndAnUnknownAddressAlike(t *testing.T) {
	f := newFixture(t)
	f.signUp(t)
	_, wrong := f.SignIn(t.Context(), home, ada.Email, "not the password")
	_, unknown := f.SignIn(t.Context(), home, "eve@example.com", ada.Password)
	_, decoy := f.SignIn(t.Context(), home, "eve@example.com", "") // what the decoy is the hash of
	wantKind(t, wrong, fault.Unauthenticated)
	for _, err := range []error{unknown, decoy} {
		wantKind(t, err, fault.Unauthenticated)
		if err == nil || err.Error() != wrong.Error() {
			t.Errorf("an unknown address gives %q, a wrong password %q", err, wrong)
		}
	}
}

// TestEveryRefusalTakesTheSameWork goes by memory, of which Argon2 takes
// all that it is told to: time would say the same, but less reliably.
func TestEveryRefusalTakesTheSameWork(t *testing.T) {
	const costMiB = 16
	f := newFixture(t)
	service, err := auth.New(f.db, f.clock, f.members, auth.Cost{MemoryKiB: costMiB * 1024, Iterations: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := service.SignUp(t.Context(), home, ada); err != nil {
		t.Fatal(err)
	}
	attempt := func(email, password string, kind fault.Kind) {
		t.Helper()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := service.SignIn(t.Context(), home, email, password)
		runtime.ReadMemStats(&after)
		wantKind(t, err, kind)
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took < costMiB || took > costMiB+1 {
			t.Errorf("refusing %s took %d MiB, want %d", email, took, costMiB)
		}
	}
	for _, email := range []string{ada.Email, "eve@example.com"} {
		for range 5 {
			attempt(email, "not the password", fault.Unauthenticated)
		}
		attempt(email, "not the password", fault.RateLimited)
		attempt(email, ada.Password, fault.RateLimited)
	}
}

func TestAPasswordWaitsNoLongerThanItsRequest(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.SignIn(ctx, home, ada.Email, ada.Password); err == nil {
		t.Error("a request that is over signed in")
	}
}
