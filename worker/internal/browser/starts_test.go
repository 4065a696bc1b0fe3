package browser_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
)

// TestLaunch_StartsEveryTime starts many headless shells, four at a time: a switch that saves
// processor time must not make some of them crash.
func TestLaunch_StartsEveryTime(t *testing.T) {
	r := newIsolatedFixture(t)
	r.build = headlessShell(t)
	server, moved := startEgress(t)
	var clients sync.WaitGroup
	for client := range 4 {
		clients.Go(func() {
			for i := range testenv.Depth(10, 300) {
				spec := r.spec(fmt.Sprintf("start-%d-%d", client, i))
				spec.ProxyServer, spec.OnProxyListener = server, moved
				b, err := r.Launch(t.Context(), spec)
				if err != nil {
					t.Errorf("start %d of client %d: %v", i, client, err)
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
