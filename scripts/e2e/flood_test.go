package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
)

// TestFlood_UnauthenticatedLaunchesDoNotBlockWorker launches browsers while other
// clients with the same address send requests to /launch with invalid keys, as fast
// as they get responses.
func TestFlood_UnauthenticatedLaunchesDoNotBlockWorker(t *testing.T) {
	t.Parallel()
	const threads = 12
	launches := testenv.Depth(6, 20)
	cloud := startCloud(t, "DATABASE_URL="+dbtest.NewDSN(t))
	account := cloud.signUp(t)
	env := testEnv{account: account, cloud: cloud, worker: startWorker(t, cloud, account.key, "MAX_SESSIONS=2", "LOG_LEVEL=info")}
	request := env.newLaunchRequest(t, true)
	address := func(key string) string {
		launchEnv, err := json.Marshal(map[string]any{"SVC_KEY": key, "profileId": request.ProfileId})
		if err != nil {
			t.Fatal(err)
		}
		return "ws://" + env.worker.address + "/launch?env=" + url.QueryEscape(string(launchEnv))
	}
	start := time.Now()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var flood sync.WaitGroup
	var refused, other atomic.Int64
	for range threads {
		flood.Go(func() {
			for ctx.Err() == nil {
				_, err := ws.Dial(ctx, address("svc_"+rand.Text()), nil, ws.Options{})
				if refused, ok := errors.AsType[*ws.RefusedError](err); ok && refused.Status != http.StatusUnauthorized {
					other.Add(1)
				}
				refused.Add(1)
			}
		})
	}
	for i := range launches {
		if i%2 == 0 {
			env.worker.killSession(t, env.worker.launch(t, request).Id)
			continue
		}
		conn, err := ws.Dial(t.Context(), address(env.key), nil, ws.Options{})
		if err != nil {
			t.Fatalf("launch %d: %v", i, err)
		}
		conn.CloseNow()
		env.waitForSlots(t, 0, 20*time.Second) // the worker ends it asynchronously
	}
	stop()
	flood.Wait()
	if refused.Load() < threads || other.Load() > 0 {
		t.Errorf("of %d launches with invalid keys, %d were refused for another reason", refused.Load(), other.Load())
	}
	log, err := os.ReadFile(filepath.Join(env.worker.dir, "worker.log"))
	if err != nil {
		t.Fatal(err)
	}
	// The worker logs at most ten lines per minute.
	if n := strings.Count(string(log), "route=/launch path=/launch status=401"); n == 0 || n > 10*int(time.Since(start)/time.Minute+1) {
		t.Errorf("%d log lines about refused keys for %d requests", n, refused.Load())
	}
}
