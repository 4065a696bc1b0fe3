package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
)

// launchCount is how many launches have to find the free worker.
const launchCount = 20

// TestEdges_RetryLaunchOnAnotherWorker fills one of two workers, and
// launches at once, before any health check has noticed.
func TestEdges_RetryLaunchOnAnotherWorker(t *testing.T) {
	body := strings.Repeat("x", 300_000) // all of it arrives, also at the second worker
	for i := range balancers {
		e := newEdge(t, i)
		t.Run(e.name, func(t *testing.T) {
			workers := [2]*fakeWorker{newFakeWorker(t, e.workerID(0)), newFakeWorker(t, e.workerID(1))}
			e.start(t, workers[0].address(), workers[1].address())
			launch := func() error {
				status, text := e.send(t, http.MethodPost, "/sessions/profile", body, "X-API-Key", "key")
				if status != http.StatusCreated || string(text) != body {
					return fmt.Errorf("a launch: %d, %d bytes come back: %.100s", status, len(text), text)
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
					return errors.New("a worker gets none")
				}
				return nil
			}
			for full := range workers {
				eventually(t, readyTimeout, "both take launches", bothReady)
				workers[full].unready.Store(true)
				taken := workers[1-full].launches.Load()
				var all sync.WaitGroup
				for range launchCount / 2 {
					if err := launch(); err != nil {
						t.Errorf("one after the other: %v", err)
					}
				}
				for range launchCount / 2 {
					all.Go(func() {
						if err := launch(); err != nil {
							t.Errorf("together: %v", err)
						}
					})
				}
				all.Wait()
				if got := workers[1-full].launches.Load() - taken; got != launchCount {
					t.Errorf("the free worker got %d launches, want %d", got, launchCount)
				}
				for range 3 {
					if status, text := e.send(t, http.MethodGet, "/launch?env=x", "", "X-API-Key", "key"); status != http.StatusOK || string(text) != "x" {
						t.Errorf("over /launch: %d %s", status, text)
					}
				}
				e.assertSentOnce(t, workers, full)
				workers[full].unready.Store(false)
			}
			e.assertAllUnready(t, workers)
		})
	}
}

// assertSentOnce fails when something else than a launch, or a launch that names
// its worker, is sent to another worker, too.
func (e *edge) assertSentOnce(t *testing.T, workers [2]*fakeWorker, full int) {
	t.Helper()
	refused, taken := workers[full].refused.Load(), workers[1-full].launches.Load()
	status, text := e.send(t, http.MethodPost, "/w/"+e.workerID(full)+"/sessions/profile", "{}", "X-API-Key", "key")
	if status != http.StatusServiceUnavailable || string(text) != unreadyBody || workers[full].refused.Load() != refused+1 || workers[1-full].launches.Load() != taken {
		t.Errorf("a launch on the full worker itself: %d %s; the other took %d", status, text, workers[1-full].launches.Load()-taken)
	}
	before := workers[0].drains.Load() + workers[1].drains.Load()
	if status, _ := e.send(t, http.MethodPost, "/fleet/drain", "", "X-API-Key", "key"); status != http.StatusServiceUnavailable {
		t.Errorf("a call that is no launch: %d", status)
	}
	if n := workers[0].drains.Load() + workers[1].drains.Load() - before; n != 1 {
		t.Errorf("a call that is no launch came %d times", n)
	}
}

// assertAllUnready fails unless a worker's own words say that none is ready, at
// once and later.
func (e *edge) assertAllUnready(t *testing.T, workers [2]*fakeWorker) {
	t.Helper()
	for _, w := range workers {
		w.unready.Store(true)
	}
	for range 5 {
		status, text := e.send(t, http.MethodPost, "/sessions/profile", "{}", "X-API-Key", "key")
		if status != http.StatusServiceUnavailable || string(text) != unreadyBody {
			t.Errorf("no worker is ready: %d %q", status, text)
		}
	}
}

// TestEdges_LaunchOnWorkerWithFreeSlots is the same with real workers, of which one
// runs as many browsers as it may.
func TestEdges_LaunchOnWorkerWithFreeSlots(t *testing.T) {
	dsn := dbtest.NewDSN(t)
	c := startCloud(t, "DATABASE_URL="+dsn)
	for i := range balancers {
		account := c.signUp(t)
		account.setLimit(t, dbtest.Open(t, dsn, pg.Options{MaxOpen: 1}), 2*launchCount)
		e := newEdge(t, i)
		t.Run(e.name, func(t *testing.T) {
			shared := []string{"API_KEY=wrk_of_both_workers", "PUBLIC_URL=" + e.url, "MAX_MEMORY_PERCENT=0", "MIN_FREE_DISK_MB=0"}
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
					t.Errorf("launch %d of %d: %d %.300s", n+1, count, status, text)
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
