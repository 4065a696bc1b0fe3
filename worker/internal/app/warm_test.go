package app_test

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// pool returns the state of the warm pool.
func (r *testWorker) pool(t *testing.T) workerapi.FleetWarmPool {
	t.Helper()
	_, text := r.call(t.Context(), t, "GET", "/fleet/status", "", "X-API-Key", workerKey)
	return decode[workerapi.FleetStatusResponse](t, text).Data.WarmPool
}

// awaitReady waits until a warm browser is ready.
func (r *testWorker) awaitReady(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for len(r.pool(t).Ready) == 0 {
		if time.Now().After(deadline) {
			t.Fatalf("no warm browser is ready: %+v", r.pool(t))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// launchWhenReady launches a browser by spec as soon as a warm one is ready in this time
// zone. It returns the time of the request.
func (r *testWorker) launchWhenReady(t *testing.T, zone, spec string) (time.Time, workerapi.BrowserSession) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !slices.ContainsFunc(r.pool(t).Ready, func(b workerapi.WarmBrowsers) bool { return b.TimezoneId == zone }) {
		if time.Now().After(deadline) {
			t.Fatalf("no warm browser is ready in the time zone %q: %+v", zone, r.pool(t))
		}
		time.Sleep(20 * time.Millisecond)
	}
	began := time.Now()
	return began, r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"spec":%s}`, spec))
}

// TestWarmPool_UsedWherePossible launches in turn settings that a warm browser can
// apply and settings that it cannot. WARM_ROUNDS sets the number of rounds, for
// measurements.
func TestWarmPool_UsedWherePossible(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), func(c *app.Config) { c.WarmPool = []int{1} })
	rounds := 1
	_, _ = fmt.Sscan(os.Getenv("WARM_ROUNDS"), &rounds)
	const zone = "Asia/Tokyo"
	_, first := r.launchWhenReady(t, "", `{"timezoneId":"Asia/Tokyo"}`) // the pool learns the demand
	r.session(t, "DELETE", "/sessions/"+first.Id.String(), "")
	took, failedClaims := map[bool][]time.Duration{}, 0
	for range rounds {
		for warm, spec := range map[bool]string{true: `{"timezoneId":"Asia/Tokyo"}`, false: `{"userAgent":"Test/1.0"}`} {
			began, s := r.launchWhenReady(t, zone, spec)
			for ; warm && slices.Equal(s.Start.ColdReasons, []string{"claimFailed"}); failedClaims++ { // the machine is busy
				r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
				began, s = r.launchWhenReady(t, zone, spec)
			}
			if err := r.dial(t, *s.WebSocketDebuggerUrl); err != nil {
				t.Fatal(err)
			}
			took[warm] = append(took[warm], time.Since(began))
			want := workerapi.BrowserStart{Warm: true, ColdReasons: []string{}}
			if !warm {
				want = workerapi.BrowserStart{ColdReasons: []string{"userAgent"}}
			}
			if diff := cmp.Diff(want, s.Start); diff != "" {
				t.Errorf("start (-want +got):\n%s", diff)
			}
			r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
		}
	}
	r.awaitReady(t)
	state := r.pool(t)
	cold := []workerapi.ColdLaunches{{Reason: "empty", Count: 1}, {Reason: "userAgent", Count: int64(rounds)}}
	state.ColdLaunches = slices.DeleteFunc(state.ColdLaunches, func(c workerapi.ColdLaunches) bool { return c.Reason == "claimFailed" })
	if diff := cmp.Diff(cold, state.ColdLaunches); diff != "" || state.WarmLaunches != int64(rounds) || state.MemoryBytes == 0 {
		t.Errorf("pool %+v, cold (-want +got):\n%s", state, diff)
	}
	if requests := len(r.cloud.Calls(cloudtest.Authorize)); requests != 1+2*rounds+failedClaims {
		t.Errorf("the cloud got %d authorize requests for %d launches", requests, 1+2*rounds+failedClaims)
	}
	for warm, all := range took {
		slices.Sort(all)
		t.Logf("warm %t: first answer after %v minimum, %v median, %v maximum", warm, all[0], all[len(all)/2], all[len(all)-1])
	}
}

// TestWarmPool_HoldsDuringLaunches checks that launches still get warm browsers while launches
// that need a new browser run all the time. The pool keeps more than its minimum.
func TestWarmPool_HoldsDuringLaunches(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), func(c *app.Config) { c.WarmPool = []int{1, 3} })
	launch := func(spec string) workerapi.BrowserSession {
		s := r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"spec":%s}`, spec))
		r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
		return s
	}
	for range 3 { // the pool learns the demand
		r.awaitReady(t)
		launch(`{}`)
	}
	ended := make(chan struct{})
	var clients sync.WaitGroup
	for range 2 {
		clients.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				_, text := r.call(t.Context(), t, "POST", "/sessions/profile", `{"spec":{"userAgent":"Test/1.0"}}`, "X-API-Key", workerKey)
				id := decode[workerapi.BrowserSessionResponse](t, text).Data.Id
				r.call(t.Context(), t, "DELETE", "/sessions/"+id.String(), "", "X-API-Key", workerKey)
			}
		})
	}
	defer clients.Wait()
	defer close(ended)
	for range 6 {
		r.awaitReady(t)
		if s := launch(`{}`); !s.Start.Warm {
			t.Errorf("start %+v", s.Start)
		}
	}
	state := r.pool(t)
	if len(state.Demand) != 1 || state.Demand[0].StartMs == nil || state.Demand[0].LaunchesPerMinute < 3 || state.Demand[0].Target < 1 ||
		state.Size != 1 || state.MaxSize != 3 || state.Target < 1 || state.Target > 3 {
		t.Errorf("pool %+v", state)
	}
}
