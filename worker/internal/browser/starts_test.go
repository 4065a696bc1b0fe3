package browser_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
)

// TestLaunch_StartsEveryTime starts many headless browsers, four at a time: a switch that saves
// processor time must not make some of them crash.
func TestLaunch_StartsEveryTime(t *testing.T) {
	r := newIsolatedFixture(t)
	server, moved := startEgress(t)
	for build, perClient := range map[builds.Build]int{r.build: testenv.Depth(2, 100), headlessShell(t): testenv.Depth(4, 300)} {
		var clients sync.WaitGroup
		for client := range 4 {
			clients.Go(func() {
				for i := range perClient {
					spec := r.spec(fmt.Sprintf("%s-%d-%d", build.Engine, client, i))
					spec.Build, spec.ProxyServer, spec.OnProxyListener = build, server, moved
					b, err := r.Launch(t.Context(), spec)
					if err != nil {
						t.Errorf("%s, start %d of client %d: %v", build.Engine, i, client, err)
						continue
					}
					if err := b.Kill(context.Background()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		clients.Wait()
	}
}
