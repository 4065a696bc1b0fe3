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
	_, wrong := f.SignIn(t.Context(), ada.Email, "not the password")
	_, unknown := f.SignIn(t.Context(), "eve@example.com", ada.Password)
	_, decoy := f.SignIn(t.Context(), "eve@example.com", "") // what the decoy is the hash of
	wantKind(t, wrong, fault.Unauthenticated)
	for _, err := range []error{unknown, decoy} {
		wantKind(t, err, fault.Unauthenticated)
		if err == nil || err.Error() != wrong.Error() {
			t.Errorf("an unknown address gives %q, a wrong password %q", err, wrong)
		}
	}
}

// TestAnUnknownAddressTakesTheSameWork goes by memory, of which Argon2 takes
// all that it is told to: time would say the same, but less reliably.
func TestAnUnknownAddressTakesTheSameWork(t *testing.T) {
	const costMiB = 16
	f := newFixture(t)
	service, err := auth.New(f.db, f.clock, f.members, auth.Cost{MemoryKiB: costMiB * 1024, Iterations: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := service.SignUp(t.Context(), ada); err != nil {
		t.Fatal(err)
	}
	for _, email := range []string{ada.Email, "eve@example.com"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := service.SignIn(t.Context(), email, "not the password")
		runtime.ReadMemStats(&after)
		wantKind(t, err, fault.Unauthenticated)
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took < costMiB || took > costMiB+1 {
			t.Errorf("refusing %s took %d MiB, want %d", email, took, costMiB)
		}
	}
}

func TestAPasswordWaitsNoLongerThanItsRequest(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.SignIn(ctx, ada.Email, ada.Password); err == nil {
		t.Error("a request that is over signed in")
	}
}
