package license

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
)

func TestOrgPool_WaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, org, over := newOrgPool(nil), uuid.New(), make(chan struct{})
		quick := func(ctx context.Context, orgID uuid.UUID) error {
			return turns.run(ctx, orgID, func() error { return nil })
		}
		for range maxConnsPerOrg {
			go turns.run(t.Context(), org, func() error { <-over; return nil })
		}
		synctest.Wait()
		began := time.Now()
		err := quick(t.Context(), org)
		if busy := fault.From(err); busy.Kind != fault.Unavailable || busy.RetryAfter == 0 || time.Since(began) != maxConnWait {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := quick(ctx, org); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cancelled caller: %v", err)
		}
		if err := quick(t.Context(), uuid.New()); err != nil {
			t.Errorf("another organization: %v", err)
		}
		next := make(chan error, 1)
		go func() { next <- quick(t.Context(), org) }()
		synctest.Wait()
		close(over)
		if err := <-next; err != nil {
			t.Errorf("next caller: %v", err)
		}
		synctest.Wait()
		if len(turns.orgs) != 0 {
			t.Errorf("%d organizations are remembered without calls", len(turns.orgs))
		}
	})
}
