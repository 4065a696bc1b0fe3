package admission_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch/admission"
)

func newKey() session.OrganizationKey { return session.NewOrganizationKey("svc_" + rand.Text()) }

func TestDo_RefusedKeysDelayTheirClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := admission.NewKeys(clock.System{})
		refuse := func(client string) time.Duration {
			begin := time.Now()
			err := k.Do(t.Context(), newKey(), client, func() error { return fault.New(fault.Unauthenticated, "The key is not valid.") })
			if !admission.IsKeyRefused(err) {
				t.Errorf("got %v", err)
			}
			return time.Since(begin)
		}
		for range 5 {
			refuse("2001:db8::1")
		}
		if took := refuse("2001:db8::ffff"); took < time.Second { // same network
			t.Errorf("the sixth refusal took %v", took)
		}
		if took := refuse("192.0.2.7"); took > 100*time.Millisecond {
			t.Errorf("another client's first refusal took %v", took)
		}
		time.Sleep(time.Minute)
		if took := refuse("2001:db8::1"); took > 100*time.Millisecond {
			t.Errorf("a refusal after a minute took %v", took)
		}
	})
}

func TestDo_RefusesTooManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := admission.NewKeys(clock.System{})
		ctx, cancel := context.WithCancel(t.Context())
		const tries, each, waiting = 100, 4, 64
		var requests atomic.Int64
		refused, canceled := 0, 0
		errs := make(chan error, tries)
		for range tries {
			go func() {
				errs <- k.Do(ctx, newKey(), "192.0.2.1", func() error { requests.Add(1); <-ctx.Done(); return ctx.Err() })
			}()
			synctest.Wait()
		}
		if requests.Load() != each || len(errs) != tries-each-waiting {
			t.Errorf("%d requests, %d refused at once", requests.Load(), len(errs))
		}
		cancel()
		for range tries {
			switch err := <-errs; {
			case errors.Is(err, admission.ErrTooManyPending):
				refused++
			case errors.Is(err, context.Canceled):
				canceled++
			}
		}
		if refused != tries-each-waiting || canceled != each+waiting {
			t.Errorf("%d refused, %d canceled", refused, canceled)
		}
	})
}

// TestDo_WaitsOfOtherClientsTakeNoPlace fills the queues of 40 clients.
func TestDo_WaitsOfOtherClientsTakeNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, callers = 40, 60
		k := admission.NewKeys(clock.System{})
		answer := make(chan struct{})
		var flood sync.WaitGroup
		for i := range clients * callers {
			flood.Go(func() {
				_ = k.Do(t.Context(), newKey(), fmt.Sprintf("192.0.2.%d", i%clients), func() error {
					<-answer
					return fault.New(fault.Unauthenticated, "The key is not valid.")
				})
			})
		}
		synctest.Wait()
		other := make(chan error, 1)
		go func() { other <- k.Do(t.Context(), newKey(), "198.51.100.1", func() error { return nil }) }()
		synctest.Wait()
		close(answer)
		if err := <-other; err != nil {
			t.Errorf("another client: %v", err)
		}
		flood.Wait()
	})
}

func TestDo_RemembersAcceptedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := admission.NewKeys(clock.System{})
		key := newKey()
		for _, answer := range []struct {
			err      error
			accepted bool
		}{
			{fault.New(fault.Unavailable, "The cloud cannot be reached."), false},
			{fault.New(fault.PaymentRequired, "full"), true},
			{fault.New(fault.Unavailable, "The cloud cannot be reached."), true},
			{fault.New(fault.Forbidden, "The key is not valid."), false},
			{nil, true},
		} {
			if err := k.Do(t.Context(), key, "192.0.2.1", func() error { return answer.err }); !errors.Is(err, answer.err) {
				t.Errorf("got %v", err)
			}
			if k.Accepted(key) != answer.accepted {
				t.Errorf("after %v: accepted is %v", answer.err, !answer.accepted)
			}
		}
		time.Sleep(10 * time.Minute)
		if k.Accepted(key) {
			t.Error("the key is accepted after ten minutes")
		}
	})
}
