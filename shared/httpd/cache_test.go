package httpd_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/browser-svc/svc/shared/httpd"
)

func TestCache_RunsOncePerPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		check := httpd.NewCache(time.Second, 2*time.Second, -1, func(context.Context) int {
			runs++
			time.Sleep(time.Second)
			return runs
		})
		defer check.Close()
		for _, want := range []int{1, 2} {
			began := time.Now()
			var all sync.WaitGroup
			for range 5 {
				all.Go(func() {
					if got := check.Get(t.Context()); got != want {
						t.Errorf("got %d, want %d", got, want)
					}
				})
			}
			all.Wait()
			if got := check.Get(t.Context()); got != want || time.Since(began) != time.Second {
				t.Errorf("after %v: got %d, want %d after one second", time.Since(began), got, want)
			}
			time.Sleep(time.Second)
		}
	})
}

// TestCache_AnswersLateCheckAtTimeout runs a check that ignores the end of its context.
func TestCache_AnswersLateCheckAtTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		check := httpd.NewCache(time.Second, 2*time.Second, -1, func(ctx context.Context) int {
			runs++
			if runs == 1 {
				time.Sleep(30 * time.Second)
			}
			if ctx.Err() != nil {
				return 0
			}
			return runs
		})
		began := time.Now()
		wait := func(ctx context.Context, want int, took time.Duration) {
			t.Helper()
			if got := check.Get(ctx); got != want || time.Since(began) != took {
				t.Errorf("got %d after %v, want %d after %v", got, time.Since(began), want, took)
			}
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wait(short, -1, time.Second)
		wait(t.Context(), -1, 2*time.Second)
		wait(t.Context(), -1, 2*time.Second) // the check still runs
		if runs != 1 {
			t.Errorf("%d runs at once", runs)
		}
		time.Sleep(28 * time.Second)
		synctest.Wait()
		wait(t.Context(), 0, 30*time.Second)
		time.Sleep(time.Second)
		wait(t.Context(), 2, 31*time.Second)
		check.Close()
		wait(t.Context(), -1, 31*time.Second)
	})
}

func TestCache_CloseCancelsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		check := httpd.NewCache(time.Second, time.Hour, -1, func(ctx context.Context) int {
			<-ctx.Done()
			ended = true
			return 1
		})
		go check.Get(t.Context())
		synctest.Wait()
		check.Close()
		if !ended {
			t.Error("the check still runs")
		}
	})
}
