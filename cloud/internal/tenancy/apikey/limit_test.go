package apikey_test

import (
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/cloud/internal/tenancy/apikey"
	"github.com/browser-svc/svc/shared/fault"
)

func wantFull(t *testing.T, err error, limit int) {
	t.Helper()
	d := fault.From(err).Details
	if !fault.Is(err, fault.Forbidden) || len(d) != 1 || d[0].Field != "liveKeys" || d[0].Constraint["current"] != limit || d[0].Constraint["limit"] != limit {
		t.Errorf("error %v, details %+v; want the limit %d", err, d, limit)
	}
}

func TestCreate_RefusesAtLimit(t *testing.T) {
	f := newFixture(t)
	f.MaxLive = 5
	errs := make(chan error, 20)
	var all sync.WaitGroup
	for range cap(errs) {
		all.Go(func() {
			_, _, err := f.Create(t.Context(), f.orgID, f.userID, apikey.NewKey{Name: "fleet"})
			errs <- err
		})
	}
	all.Wait()
	close(errs)
	keys := 0
	for err := range errs {
		if err == nil {
			keys++
		} else {
			wantFull(t, err, 5)
		}
	}
	if keys != 5 {
		t.Fatalf("%d keys, want 5", keys)
	}
	first := f.list(t, "createdAt")[0]
	_, _, err := f.Rotate(t.Context(), f.orgID, f.userID, first.ID, new(time.Hour))
	wantFull(t, err, 5)
	if got := f.list(t, "createdAt")[0]; got.ExpiresAt != nil {
		t.Error("the refused rotation expired the old key")
	}
	if _, _, err := f.Rotate(t.Context(), f.orgID, f.userID, first.ID, new(time.Duration(0))); err != nil {
		t.Errorf("old key expires at once: %v", err)
	}
	_, err = f.Update(t.Context(), f.orgID, first.ID, apikey.Change{NeverExpires: true})
	wantFull(t, err, 5)
	if _, err := f.Update(t.Context(), f.orgID, first.ID, apikey.Change{Name: new("old")}); err != nil {
		t.Errorf("rename: %v", err)
	}
	for _, k := range f.list(t, "createdAt")[1:2] {
		if err := f.Revoke(t.Context(), f.orgID, k.ID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Update(t.Context(), f.orgID, first.ID, apikey.Change{NeverExpires: true}); err != nil {
		t.Errorf("after a revocation: %v", err)
	}
	if _, _, err := f.Create(t.Context(), f.organization(t), f.userID, apikey.NewKey{Name: "fleet"}); err != nil {
		t.Errorf("in another organization: %v", err)
	}
}
