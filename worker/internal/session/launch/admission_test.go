package launch_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// admitAtMost admits launches up to a number of running and launching browsers.
type admitAtMost int

func (n admitAtMost) Admit(running, launching int) error {
	if running+launching >= int(n) {
		return fault.New(fault.Unavailable, "full")
	}
	return nil
}

func TestLaunch_EnforcesAdmissionUnderParallelLaunches(t *testing.T) {
	const limit, tries = 5, 64
	r := newFixture(t, func(o *launch.Options) { o.Admission, o.Launcher = admitAtMost(limit), &recordingLauncher{} })
	var entered sync.WaitGroup
	entered.Add(limit)
	proceed := make(chan struct{})
	r.cloud.entered = func(context.Context) { entered.Done(); <-proceed } // an additional call panics
	var launches sync.WaitGroup
	errs := make(chan error, tries)
	for range tries {
		launches.Go(func() {
			_, err := r.Launch(t.Context(), byProfile())
			errs <- err
		})
	}
	entered.Wait()
	for range tries - limit { // the others are refused during these launches
		assertKind(t, <-errs, fault.Unavailable)
	}
	if running, launching := r.Counts(); running != 0 || launching != limit {
		t.Errorf("got %d running, %d launching", running, launching)
	}
	close(proceed)
	launches.Wait()
	if running, launching := r.Counts(); running != 0 || launching != 0 || len(r.cloud.requests) != limit {
		t.Errorf("got %d running, %d launching, %d authorize requests", running, launching, len(r.cloud.requests))
	}
}

func TestLaunch_RunningBrowserCountsUntilItEnds(t *testing.T) {
	r := newFixture(t, func(o *launch.Options) { o.Admission = admitAtMost(1) })
	s := r.launch(t, byProfile())
	if running, launching := r.Counts(); running != 1 || launching != 0 {
		t.Errorf("got %d running, %d launching", running, launching)
	}
	_, err := r.Launch(t.Context(), byProfile())
	assertKind(t, err, fault.Unavailable)
	if _, err := r.KillLaunch(t.Context(), s.LaunchID, session.Idle); err != nil {
		t.Fatal(err)
	}
	r.assertSession(t, s.ID, session.Killed, session.Idle, nil)
	r.launch(t, byProfile())
}

func TestDrain_RefusesLaunchesAndKeepsSessions(t *testing.T) {
	r := newFixture(t)
	s := r.launch(t, byProfile())
	r.Drain()
	_, err := r.Launch(t.Context(), byProfile())
	if got := assertKind(t, err, fault.Unavailable); got.Message != "This worker is draining." || !r.Draining() {
		t.Errorf("refused with %q, draining %v", got.Message, r.Draining())
	}
	if err := r.browser(t, s).CDP().Call(t.Context(), "", "Browser.getVersion", nil, nil); err != nil {
		t.Error(err)
	}
	r.Resume()
	r.launch(t, byProfile())
	if r.Draining() {
		t.Error("the service still drains after Resume")
	}
}

func TestRetire_IsNotUndoneByResume(t *testing.T) {
	r := newFixture(t)
	s := r.launch(t, byProfile())
	r.Drain()
	r.Retire()
	r.Resume()
	_, err := r.Launch(t.Context(), byProfile())
	if got := assertKind(t, err, fault.Unavailable); got.Message != "This worker is shutting down." || !r.Draining() {
		t.Errorf("refused with %q, draining %v", got.Message, r.Draining())
	}
	if err := r.browser(t, s).CDP().Call(t.Context(), "", "Browser.getVersion", nil, nil); err != nil {
		t.Errorf("the running browser: %v", err)
	}
}

func TestIdleTimeout_EndsUnusedBrowser(t *testing.T) {
	r := newFixture(t)
	request := byProfile()
	const idle = time.Second
	request.Override.IdleTimeoutSeconds = new(int32(idle / time.Second))
	used := r.launch(t, request)
	running, _ := r.Running(used.LaunchID)
	ctx, rest := context.WithCancel(t.Context())
	defer rest()
	go func() {
		for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
			running.Activity.Touch()
		}
	}()
	unused := r.launch(t, request)
	end := r.awaitEnd(t, 10*time.Second)
	if end.SessionID != unused.ID || end.Reason != session.Idle || end.At.Sub(unused.StartedAt) < idle {
		t.Errorf("ended %+v, started %v", end, unused.StartedAt)
	}
	rest()
	if end := r.awaitEnd(t, 10*time.Second); end.SessionID != used.ID || end.At.Sub(unused.StartedAt) < idle {
		t.Errorf("ended %+v", end)
	}
	r.assertSession(t, used.ID, session.Killed, session.Idle, nil)
}

func TestConnectTimeout_EndsBrowserWithoutClient(t *testing.T) {
	r := newFixture(t, func(o *launch.Options) { o.LimitRules.Default.Connect = time.Second })
	viewed := r.launch(t, byProfile())
	running, _ := r.Running(viewed.LaunchID)
	running.Activity.Use()
	unused := r.launch(t, byProfile())
	if end := r.awaitEnd(t, 10*time.Second); end.SessionID != unused.ID || end.Reason != session.NeverConnected || end.Status != session.Killed {
		t.Errorf("ended %+v", end)
	}
	r.assertSession(t, unused.ID, session.Killed, session.NeverConnected, nil)
	if end, _ := running.Lifetime.Expiry(); !end.IsZero() {
		t.Errorf("the viewed browser expires at %v", end)
	}
}

// launchHook is a launcher that calls a function before it returns a browser.
type launchHook struct {
	launch.Launcher
	do func()
}

func (w launchHook) Launch(ctx context.Context, spec browser.Spec) (*browser.Browser, error) {
	b, err := w.Launcher.Launch(ctx, spec)
	w.do()
	return b, err
}

// admissionFunc is an admission.Policy. It is called with the lock of the admission held.
type admissionFunc func() error

func (a admissionFunc) Admit(int, int) error { return a() }

func TestLaunch_SessionIsListedOnlyWhenItCanBeEnded(t *testing.T) {
	var r *fixture
	calls, locked, visible := 0, make(chan struct{}), false
	var another sync.WaitGroup
	r = newFixture(t, func(o *launch.Options) {
		o.Admission = admissionFunc(func() error {
			if calls++; calls == 1 {
				return nil
			}
			close(locked)
			for deadline := time.Now().Add(300 * time.Millisecond); !visible && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
				live, _ := o.Sessions.Live()
				visible = len(live) > 0
			}
			return fault.New(fault.Unavailable, "full")
		})
		o.Launcher = launchHook{o.Launcher, func() {
			another.Go(func() { _, _ = r.Launch(context.WithoutCancel(t.Context()), byProfile()) })
			<-locked
		}}
	})
	r.launch(t, byProfile())
	another.Wait()
	if visible {
		t.Error("the session was listed before it could be ended")
	}
}

func TestDrain_CallsDrainChanged(t *testing.T) {
	r := newFixture(t)
	var states []bool
	r.DrainChanged = func() { states = append(states, r.Draining()) }
	r.Drain()
	r.Resume()
	r.Retire()
	if want := []bool{true, false, true}; !slices.Equal(states, want) {
		t.Errorf("called while draining is %v, want %v", states, want)
	}
}
