package launch_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

func TestWarm_LaunchClaimsWarmBrowser(t *testing.T) {
	w := newWarmFixture(t, 1)
	w.awaitReady(t, 1)
	if running, launching := w.Counts(); running+launching != 0 || len(w.browsers()) != 1 {
		t.Errorf("got %d running, %d launching; %d browser processes", running, launching, len(w.browsers()))
	}
	w.cloud.profile.Settings.Proxy = &settings.Proxy{Server: "http://proxy.example:3128"}
	began := time.Now()
	s := w.launch(t, byProfile())
	if diff := cmp.Diff(session.Start{Warm: true}, s.Start); diff != "" {
		t.Errorf("start (-want +got):\n%s", diff)
	}
	want := []session.StepName{session.Asked, session.Authorized, session.Claimed, session.Answered, session.Ready, session.Reported}
	if diff := cmp.Diff(want, stepNames(s.Timeline)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if s.StartedAt.Before(began.UTC().Truncate(time.Microsecond)) {
		t.Errorf("the session started at %v, before the request at %v", s.StartedAt, began)
	}
	if got := w.browser(t, s); got.LaunchID != s.LaunchID.String() || got.DebugPort != s.DebugPort {
		t.Errorf("the session %+v has the browser %s", s, got.LaunchID)
	}
	w.assertAnswers(t, s)
	w.awaitReady(t, 1) // the pool has started another browser
	if servers, kept, open := w.egress.summary(); len(servers) != 1 || servers[0] != "http://proxy.example:3128" || !kept || open != 2 {
		t.Errorf("got upstream proxies %v, restricted: %t, %d open egresses", servers, kept, open)
	}
	if _, err := w.Kill(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	w.awaitEnd(t, 10*time.Second)
	if _, _, open := w.egress.summary(); open != 1 {
		t.Errorf("got %d open egresses after the end, want only the warm browser's", open)
	}
	if diff := cmp.Diff(launch.Starts{Warm: 1, Cold: map[string]int64{}}, w.Starts()); diff != "" {
		t.Errorf("starts (-want +got):\n%s", diff)
	}
}

func TestWarm_LaunchTakesStartingBrowser(t *testing.T) {
	w := newWarmFixture(t, 1)
	deadline := time.Now().Add(time.Minute)
	for w.pool.Stats().Starting == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the pool starts no browser")
		}
		time.Sleep(time.Millisecond)
	}
	s := w.launch(t, byProfile())
	if diff := cmp.Diff(session.Start{ColdReasons: []string{"starting"}}, s.Start); diff != "" {
		t.Errorf("start (-want +got):\n%s", diff)
	}
	want := []session.StepName{session.Asked, session.Authorized, session.Claimed, session.Answered, session.Ready, session.Reported}
	if diff := cmp.Diff(want, stepNames(s.Timeline)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	w.assertAnswers(t, s)
	if started := w.pool.Stats().Started; started != 1 {
		t.Errorf("the pool started %d browsers, want only that of the launch", started)
	}
}

func TestWarm_BrowsersAreNotReportedToCloud(t *testing.T) {
	w := newWarmFixture(t, 2)
	for range 2 {
		w.awaitReady(t, 2)
		w.launch(t, byProfile())
	}
	w.awaitReady(t, 2)
	w.Drain()
	w.awaitReady(t, 0)
	w.cloud.mu.Lock()
	defer w.cloud.mu.Unlock()
	if calls, started, ended := len(w.cloud.requests), len(w.cloud.started), len(w.cloud.ended); calls != 2 || started != 2 || ended != 0 {
		t.Errorf("got %d authorize requests, %d starts and %d ends; want 2, 2, 0", calls, started, ended)
	}
}

func TestWarm_ReportsColdReasons(t *testing.T) {
	w := newWarmFixture(t, 1)
	w.awaitReady(t, 1)
	for _, tc := range []struct {
		reasons []string
		change  func(*launch.Request)
		profile func(*launch.Profile)
	}{
		{[]string{"userAgent", "args"}, func(r *launch.Request) {
			r.Override.UserAgent, r.Override.Args = "Test/1.0", []string{"--mute-audio"}
		}, nil},
		{[]string{"persist"}, func(*launch.Request) {}, func(p *launch.Profile) { p.Persist = true }},
		{[]string{"empty"}, func(r *launch.Request) { r.Override.Locale = "fr-FR" }, nil},
		{[]string{"empty"}, func(r *launch.Request) { r.Override.TimezoneID = "Asia/Tokyo" }, nil},
	} {
		t.Run(fmt.Sprint(tc.reasons), func(t *testing.T) {
			request, before := byProfile(), w.cloud.profile
			tc.change(&request)
			if tc.profile != nil {
				tc.profile(&w.cloud.profile)
			}
			s := w.launch(t, request)
			w.cloud.profile = before
			if diff := cmp.Diff(session.Start{ColdReasons: tc.reasons}, s.Start); diff != "" {
				t.Errorf("start (-want +got):\n%s", diff)
			}
			if slices.Contains(stepNames(s.Timeline), session.Claimed) {
				t.Errorf("steps %v", stepNames(s.Timeline))
			}
			if _, err := w.Kill(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
		})
	}
	cold := map[string]int64{"userAgent": 1, "args": 1, "persist": 1, "empty": 2}
	if diff := cmp.Diff(launch.Starts{Cold: cold}, w.Starts()); diff != "" {
		t.Errorf("starts (-want +got):\n%s", diff)
	}
}

func TestWarm_ConcurrentLaunchesGetDistinctBrowsers(t *testing.T) {
	w := newWarmFixture(t, 3)
	w.awaitReady(t, 3)
	var mu sync.Mutex
	ids, ready := map[string]bool{}, 0
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			s, err := w.Launch(t.Context(), byProfile())
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ids[s.LaunchID.String()] = true
			if s.Start.Warm {
				ready++
			}
		})
	}
	all.Wait()
	if len(ids) != 6 || ready != 3 {
		t.Errorf("got %d browsers for 6 launches, %d of them warm, want 3 warm", len(ids), ready)
	}
}

// TestWarm_KilledBrowserIsNotClaimed kills warm browsers at different moments before
// a launch.
func TestWarm_KilledBrowserIsNotClaimed(t *testing.T) {
	w := newWarmFixture(t, 1)
	for i := range claimRounds(testenv.Depth(3, 10)) {
		w.awaitReady(t, 1)
		killed := w.browsers()
		if len(killed) != 1 {
			t.Fatalf("got %d browsers, want 1", len(killed))
		}
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(filepath.Dir(killed[0])), "%d", &pid); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i%10) * time.Millisecond) // a different moment in each round
		s := w.launch(t, byProfile())
		if s.Start.Warm {
			t.Errorf("round %d: a launch got a killed browser", i)
		}
		w.assertAnswers(t, s)
		if _, err := w.Kill(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
	}
}

// claimRounds returns the number of rounds: WARM_ROUNDS if it is set, otherwise
// usual.
func claimRounds(usual int) int {
	var n int
	if _, err := fmt.Sscan(os.Getenv("WARM_ROUNDS"), &n); err != nil {
		return usual
	}
	return n
}

func TestWarm_HangingBrowserIsReplacedByColdStart(t *testing.T) {
	w := newWarmFixture(t, 1)
	w.awaitReady(t, 1)
	var pid int
	if _, err := fmt.Sscanf(filepath.Base(filepath.Dir(w.browsers()[0])), "%d", &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s := w.launch(t, byProfile())
	if diff := cmp.Diff(session.Start{ColdReasons: []string{"claimFailed"}}, s.Start); diff != "" {
		t.Errorf("start (-want +got):\n%s", diff)
	}
	w.assertAnswers(t, s)
	deadline := time.Now().Add(10 * time.Second)
	for syscall.Kill(pid, 0) == nil {
		if time.Now().After(deadline) {
			t.Fatal("the hanging browser was not stopped")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestWarm_DrainStopsBrowsersAndResumeRestartsThem(t *testing.T) {
	w := newWarmFixture(t, 2)
	w.awaitReady(t, 2)
	w.Drain()
	w.awaitReady(t, 0)
	deadline := time.Now().Add(10 * time.Second)
	for len(w.processes()) > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("leaked processes: %v", w.processes())
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.Resume()
	w.awaitReady(t, 2)
	if s := w.launch(t, byProfile()); !s.Start.Warm {
		t.Errorf("start %+v", s.Start)
	}
}

func TestWarmBrowser_StaleWhenBuildIsReplaced(t *testing.T) {
	r := newFixture(t)
	link := filepath.Join(r.dir, "chromium")
	if err := os.Symlink(r.build.Path, link); err != nil {
		t.Fatal(err)
	}
	build := r.build
	build.Path = link
	spare, err := launch.WarmStarter{Launcher: r.Launcher, Egress: &recordingEgressProvider{}}.Start(t.Context(), launch.WarmKind{Build: build, Headless: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := spare.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if spare.Stale() {
		t.Error("the browser is stale before its build was replaced")
	}
	if memory := spare.Memory(); memory < 50<<20 || memory > 1<<30 {
		t.Errorf("got memory %d", memory)
	}
	other, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, link+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+".new", link); err != nil {
		t.Fatal(err)
	}
	if !spare.Stale() {
		t.Error("the browser is not stale after its build was replaced")
	}
}

func TestWarmKind_String(t *testing.T) {
	kind := launch.WarmKind{Build: builds.Build{Version: "156.0.8078.79"}, Locale: "fr-FR", Timezone: "Europe/Paris", Headless: true}
	if got := kind.String(); got != "156.0.8078.79 fr-FR Europe/Paris headless" {
		t.Error(got)
	}
}
