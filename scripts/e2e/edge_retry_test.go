package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
)

// launchCount is the number of launches that the free worker must get.
const launchCount = 20

// TestEdges_RetryLaunchOnAnotherWorker makes one of two workers full and launches
// immediately, before a health check detects it.
func TestEdges_RetryLaunchOnAnotherWorker(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("x", 300_000) // the second worker must get all of it, too
	for i := range balancers {
		e := newEdge(t, i)
		t.Run(e.name, func(t *testing.T) {
			workers := [2]*fakeWorker{newFakeWorker(t, e.workerID(0)), newFakeWorker(t, e.workerID(1))}
			e.start(t, workers[0].address(), workers[1].address())
			launch := func() error {
				status, text := e.send(t, http.MethodPost, "/sessions/profile", body, "X-API-Key", "key")
				if status != http.StatusCreated || string(text) != body {
					return fmt.Errorf("a launch returned %d and %d bytes: %.100s", status, len(text), text)
				}
				return nil
			}
			bothReady := func() error {
				before := [2]int64{workers[0].launches.Load(), workers[1].launches.Load()}
				for range 4 {
					if err := launch(); err != nil {
						return err
					}
				}
				if workers[0].launches.Load() == before[0] || workers[1].launches.Load() == before[1] {
					return errors.New("a worker got no launch")
				}
				return nil
			}
			for full := range workers {
				eventually(t, readyTimeout, "both workers accept launches", bothReady)
				workers[full].unready.Store(true)
				launches := workers[1-full].launches.Load()
				var all sync.WaitGroup
				for range launchCount / 2 {
					if err := launch(); err != nil {
						t.Errorf("launches in sequence: %v", err)
					}
				}
				for range launchCount / 2 {
					all.Go(func() {
						if err := launch(); err != nil {
							t.Errorf("concurrent launches: %v", err)
						}
					})
				}
				all.Wait()
				if got := workers[1-full].launches.Load() - launches; got != launchCount {
					t.Errorf("the free worker got %d launches, want %d", got, launchCount)
				}
				for _, path := range slices.Repeat([]string{"/launch", "/playwright"}, 3) {
					if status, text := e.send(t, http.MethodGet, path+"?env=x", "", "X-API-Key", "key"); status != http.StatusOK || string(text) != "x" {
						t.Errorf("%s returned %d %s", path, status, text)
					}
				}
				e.assertSentOnce(t, workers, full)
				workers[full].unready.Store(false)
			}
			e.assertAllUnready(t, workers)
		})
	}
}

// assertSentOnce fails the test if a launch at a worker's URL, or a request that is
// not a launch, is sent to another worker as well.
func (e *edge) assertSentOnce(t *testing.T, workers [2]*fakeWorker, full int) {
	t.Helper()
	refused, launches := workers[full].refused.Load(), workers[1-full].launches.Load()
	status, text := e.send(t, http.MethodPost, "/w/"+e.workerID(full)+"/sessions/profile", "{}", "X-API-Key", "key")
	if status != http.StatusServiceUnavailable || string(text) != unreadyBody || workers[full].refused.Load() != refused+1 || workers[1-full].launches.Load() != launches {
		t.Errorf("a launch at the full worker's URL returned %d %s; the other worker got %d", status, text, workers[1-full].launches.Load()-launches)
	}
	before := workers[0].drains.Load() + workers[1].drains.Load()
	if status, _ := e.send(t, http.MethodPost, "/fleet/drain", "", "X-API-Key", "key"); status != http.StatusServiceUnavailable {
		t.Errorf("a request that is not a launch returned %d", status)
	}
	if n := workers[0].drains.Load() + workers[1].drains.Load() - before; n != 1 {
		t.Errorf("a request that is not a launch was sent %d times", n)
	}
}

// assertAllUnready fails the test unless clients get a worker's response if no
// worker is ready, immediately and later.
func (e *edge) assertAllUnready(t *testing.T, workers [2]*fakeWorker) {
	t.Helper()
	for _, w := range workers {
		w.unready.Store(true)
	}
	for range 5 {
		status, text := e.send(t, http.MethodPost, "/sessions/profile", "{}", "X-API-Key", "key")
		if status != http.StatusServiceUnavailable || string(text) != unreadyBody {
			t.Errorf("with no ready worker, a launch returned %d %q", status, text)
		}
	}
}

// TestEdges_LaunchOnWorkerWithFreeSlots uses real workers. One of them runs its
// maximum number of browsers.
func TestEdges_LaunchOnWorkerWithFreeSlots(t *testing.T) {
	t.Parallel()
	dsn := dbtest.NewDSN(t)
	c := startCloud(t, "DATABASE_URL="+dsn)
	for i := range balancers {
		account := c.signUp(t)
		account.setLimit(t, dbtest.Open(t, dsn, pg.Options{MaxOpen: 1}), 2*launchCount)
		e := newEdge(t, i)
		t.Run(e.name, func(t *testing.T) {
			shared := []string{"API_KEY=wrk_of_both_workers", "PUBLIC_URL=" + e.url, "MAX_USAGE_PERCENT=0"}
			for n, most := range []string{"MAX_SESSIONS=1", "MAX_SESSIONS=0"} {
				e.workers[n] = startWorker(t, c, account.key, append(shared, "WORKER_ID="+e.workerID(n), most)...)
			}
			s := testEnv{account: account, cloud: c, worker: e.workers[0]}
			id := s.profile(t, cloudapi.CreateProfileRequest{BrowserVersion: e.workers[0].newestVersion(t)})
			request := workerapi.LaunchProfileRequest{ProfileId: &id}
			e.start(t, e.workers[0].address, e.workers[1].address)
			e.workers[0].launch(t, request)
			count := testenv.Depth(4, launchCount)
			for n := range count {
				status, text := e.send(t, http.MethodPost, "/sessions/profile", fmt.Sprintf(`{"profileId":%q}`, id), "X-API-Key", e.workers[0].key)
				if status != http.StatusCreated || !strings.Contains(string(text), "/w/"+e.workerID(1)+"/browsers/") {
					t.Errorf("launch %d of %d returned %d %.300s", n+1, count, status, text)
					continue
				}
				var launched workerapi.BrowserSessionResponse
				if err := json.Unmarshal(text, &launched); err != nil {
					t.Fatal(err)
				}
				e.workers[1].killSession(t, launched.Data.Id)
			}
		})
	}
}
