package launch_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// newFakeService returns a Service without browsers, files and sockets, for tests in a
// synctest bubble. Its launches fail after the authorization.
func newFakeService(change func(*launch.Options)) *launch.Service {
	fakes := &fakeCloud{endedNow: make(chan struct{}, 100), profile: launch.Profile{BrowserVersion: 150}}
	opts := launch.Options{
		License: fakes, Reports: fakes, Builds: fakeBuilds{{Major: 150}}, Launcher: &recordingLauncher{}, Sessions: session.NewStore(clock.System{}),
		Clock: clock.System{}, Logger: slog.New(slog.DiscardHandler), Egress: fakeEgressProvider{&fixture{}},
	}
	change(&opts)
	return launch.New(opts)
}

// queueingCloud keeps the place of each launch and answers after a time. It grants the
// thousandth request.
type queueingCloud struct {
	*fakeCloud
	hold       time.Duration
	retryAfter time.Duration
	received   []time.Time
}

func (c *queueingCloud) Authorize(ctx context.Context, authorization launch.Authorization) (launch.Grant, error) {
	c.received = append(c.received, time.Now())
	if len(c.received) == 1000 {
		return launch.Grant{Profile: launch.Profile{ID: *authorization.ProfileID, BrowserVersion: 150}}, nil
	}
	select {
	case <-time.After(min(c.hold, authorization.Poll)):
	case <-ctx.Done():
	}
	return launch.Grant{Queued: true}, &fault.Error{Kind: fault.PaymentRequired, Message: "full", RetryAfter: c.retryAfter}
}

func TestLaunch_PausesAfterEarlyAnswerOfQueue(t *testing.T) {
	for _, test := range []struct {
		name             string
		hold, retryAfter time.Duration
		fewest, most     int           // requests in two minutes
		pause            time.Duration // at least, between the last two
	}{
		{"the cloud stops", 0, 0, 40, 130, time.Second},
		{"the cloud names a pause", 0, 5 * time.Second, 20, 24, 5 * time.Second},
		{"the cloud waits", time.Minute, 0, 5, 5, 25 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := &queueingCloud{hold: test.hold, retryAfter: test.retryAfter}
				s := newFakeService(func(o *launch.Options) { cloud.fakeCloud, o.License = o.License.(*fakeCloud), cloud })
				if _, err := s.Launch(t.Context(), waiting(2*time.Minute)); !fault.Is(err, fault.PaymentRequired) {
					t.Errorf("got %v", err)
				}
				n := len(cloud.received)
				if n < test.fewest || n > test.most {
					t.Fatalf("%d requests, want %d to %d", n, test.fewest, test.most)
				}
				for i, arrival := range cloud.received[n-1:] {
					if pause := arrival.Sub(cloud.received[n-2+i]); pause < test.pause {
						t.Errorf("repeated after %v", pause)
					}
				}
			})
		})
	}
}

func TestLaunch_StopsWaitingWhenClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &queueingCloud{hold: time.Hour}
		s := newFakeService(func(o *launch.Options) { cloud.fakeCloud, o.License = o.License.(*fakeCloud), cloud })
		client, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, leave)
		if _, err := s.Launch(client, waiting(5*time.Minute)); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if n := len(cloud.received); n != 3 {
			t.Errorf("%d requests in a minute, want 3", n)
		}
	})
}

// findHook calls a function when the builds are listed.
type findHook func()

func (f findHook) Find(context.Context) ([]builds.Build, error) { f(); return nil, nil }

// A launch that is not admitted starts nothing that Shutdown would have to wait for.
func TestLaunch_AfterShutdownListsNoBuilds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finds := 0
		s := newFakeService(func(o *launch.Options) { o.Builds = findHook(func() { finds++ }) })
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Launch(t.Context(), waiting(time.Minute)); !fault.Is(err, fault.Unavailable) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if finds != 0 {
			t.Error("a refused launch lists the builds in the background")
		}
	})
}
