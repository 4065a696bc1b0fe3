package launch_test

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// keyCheckingCloud accepts one organization key and refuses others after a delay.
type keyCheckingCloud struct {
	*fakeCloud
	key     session.OrganizationKey
	refused atomic.Int64
	most    atomic.Int64 // maximum number of concurrent requests
	now     atomic.Int64
}

func (c *keyCheckingCloud) Authorize(ctx context.Context, request launch.Authorization) (launch.Grant, error) {
	if request.OrganizationKey.IsZero() || request.OrganizationKey.Equal(c.key) {
		return c.fakeCloud.Authorize(ctx, request)
	}
	now := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
	select {
	case <-time.After(20 * time.Millisecond):
	case <-ctx.Done():
	}
	c.refused.Add(1)
	return launch.Grant{}, fault.New(fault.Unauthenticated, "The organization key is not valid.")
}

func newKeyCheckingFixture(t *testing.T, change func(*launch.Options)) (*fixture, *keyCheckingCloud) {
	t.Helper()
	var c *keyCheckingCloud
	r := newFixture(t, func(o *launch.Options) {
		c = &keyCheckingCloud{fakeCloud: o.License.(*fakeCloud), key: session.NewOrganizationKey("svc_good")}
		o.License = c
		change(o)
	})
	return r, c
}

func withOrganizationKey(key, client string) launch.Request {
	request := byProfile()
	request.OrganizationKey, request.Client = session.NewOrganizationKey(key), client
	return request
}

// launchConcurrently launches repeatedly with made-up keys from several goroutines
// until the returned function is called.
func launchConcurrently(t *testing.T, r *fixture, workers int, client string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var flooding sync.WaitGroup
	for range workers {
		flooding.Go(func() {
			for ctx.Err() == nil {
				_, _ = r.Launch(ctx, withOrganizationKey("svc_"+rand.Text(), client))
			}
		})
	}
	return func() { cancel(); flooding.Wait() }
}

func TestLaunch_UnverifiedKeysUseNoCapacity(t *testing.T) {
	r, cloud := newKeyCheckingFixture(t, func(o *launch.Options) { o.Admission = admitAtMost(2) })
	stop := launchConcurrently(t, r, 12, "192.0.2.1")
	defer stop()
	for i := range testenv.Depth(6, 20) {
		request := byProfile()
		if i%2 == 0 {
			request = withOrganizationKey("svc_good", "192.0.2.1") // the client that sends the made-up keys
		}
		s, err := r.Launch(t.Context(), request)
		if err != nil {
			t.Fatalf("launch %d: %v", i, err)
		}
		if _, err := r.Kill(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if cloud.refused.Load() < 12 || cloud.most.Load() > 4 {
		t.Errorf("got %d requests with made-up keys, %d at once", cloud.refused.Load(), cloud.most.Load())
	}
}

// TestLaunch_AllowedKeysAreCountedExactly launches concurrently with an accepted key.
func TestLaunch_AllowedKeysAreCountedExactly(t *testing.T) {
	const limit, tries = 3, 40
	r := newFixture(t, func(o *launch.Options) { o.Admission = admitAtMost(limit) })
	var launches sync.WaitGroup
	var started, refused atomic.Int64
	for range tries {
		launches.Go(func() {
			_, err := r.Launch(t.Context(), withOrganizationKey("svc_good", "192.0.2.1"))
			if err == nil {
				started.Add(1)
				return
			}
			if fault.Is(err, fault.Unavailable) {
				refused.Add(1)
			}
		})
	}
	launches.Wait()
	if running, launching := r.Counts(); running != limit || launching != 0 || started.Load() != limit || refused.Load() != tries-limit {
		t.Errorf("got %d running and %d launching; %d were started, %d refused", running, launching, started.Load(), refused.Load())
	}
	if given := len(r.cloud.ends()); given != len(r.cloud.requests)-limit {
		t.Errorf("%d slots were granted, %d released", len(r.cloud.requests), given)
	}
}
