package admission_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session/launch/admission"
)

// policyFunc is a Policy. It is called with the lock of the Controller held.
type policyFunc func(running, launching int) error

func (p policyFunc) Admit(running, launching int) error { return p(running, launching) }

var errFull = fault.New(fault.Unavailable, "full")

// TestEnter_GivesCapacityOnce lets launches with and without a verified key, that wait and do
// not, compete for the machine. Their sessions end at once.
func TestEnter_GivesCapacityOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 3
		most := 0
		c := admission.New(admission.Options{Policy: policyFunc(func(running, launching int) error {
			most = max(most, running+launching)
			if running+launching >= limit {
				return errFull
			}
			return nil
		})})
		var launches sync.WaitGroup
		for i := range 200 {
			launches.Go(func() {
				wait, verified := time.Duration(i%2)*time.Minute, i%3 > 0 || i%2 == 1
				p, err := c.Enter(t.Context(), wait, verified)
				if err != nil {
					return
				}
				defer p.Done()
				time.Sleep(time.Millisecond)
				if p.Count() == nil && i%5 > 0 {
					p.Run()
					time.Sleep(time.Millisecond)
					p.Release()
				}
			})
		}
		launches.Wait()
		if running, launching := c.Counts(); running != 0 || launching != 0 || c.Waiting() != 0 || most != limit {
			t.Errorf("%d running, %d launching and %d waiting at the end; %d at most", running, launching, c.Waiting(), most)
		}
	})
}

// The queue becomes empty and is used again within one interval.
func TestEnter_ChecksCapacityOncePerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var checks atomic.Int64
		c := admission.New(admission.Options{Policy: policyFunc(func(int, int) error { checks.Add(1); return errFull })})
		for range 10 {
			if _, err := c.Enter(t.Context(), 10*time.Millisecond, true); err == nil {
				t.Fatal("admitted")
			}
		}
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan struct{})
		go func() { defer close(left); _, _ = c.Enter(ctx, time.Minute, true) }()
		synctest.Wait()
		checks.Store(0)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := checks.Load(); n != 10 {
			t.Errorf("capacity was checked %d times in 2 s, want every 200 ms", n)
		}
		leave()
		<-left
	})
}

// A launch that waits is refused also if the machine accepts launches again at once.
func TestSetDraining_RefusesWaitingLaunch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := admission.New(admission.Options{Policy: policyFunc(func(int, int) error { return errFull })})
		refused := make(chan error, 1)
		go func() { _, err := c.Enter(t.Context(), time.Hour, true); refused <- err }()
		synctest.Wait()
		c.SetDraining(true)
		c.SetDraining(false)
		synctest.Wait()
		select {
		case err := <-refused:
			if err.Error() != "This worker is draining." || c.Draining() {
				t.Errorf("refused with %v, draining %v", err, c.Draining())
			}
		default:
			t.Error("the launch still waits")
		}
		c.Retire()
		c.Wait()
	})
}
