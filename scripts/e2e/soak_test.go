package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
)

// phase is a phase of a launch.
type phase struct {
	name  string
	call  string        // stopped at this call to the cloud
	after bool          // stopped after the cloud has responded
	delay time.Duration // or stopped after a random time up to this
}

var phases = []phase{
	{name: "before the cloud gets the authorize call", call: "authorize"},
	{name: "after a slot is reserved, before the worker gets the response", call: "authorize", after: true},
	{name: "while the browser starts", delay: 400 * time.Millisecond},
	{name: "before the start is reported", call: "start"},
	{name: "after the start is reported, before the worker gets the response", call: "start", after: true},
	{name: "while the browser runs", delay: -1},
	{name: "before the end is reported", call: "end"},
	{name: "after the end is reported, before the worker gets the response", call: "end", after: true},
}

// killCase is a victim and a phase in which the victim exists.
type killCase struct {
	victim string
	phase  phase
}

func killCases() []killCase {
	var all []killCase
	for _, p := range phases {
		all = append(all, killCase{"worker", p})
		if p.call == "start" || p.delay != 0 {
			all = append(all, killCase{"browser", p}, killCase{"X server", p})
		}
	}
	return all
}

// oneCasePerPhase selects one case of each phase, with alternating victims.
func oneCasePerPhase(all []killCase) []killCase {
	var kept []killCase
	var phase, cases int // cases: those of this phase
	for i, c := range all {
		if i == 0 || c.phase != all[i-1].phase {
			phase, cases = phase+1, 0
		}
		cases++
		last := i+1 == len(all) || all[i+1].phase != c.phase
		if cases == 2+phase%2 || last && cases == 1 {
			kept = append(kept, c)
		}
	}
	return kept
}

// soakSetting returns a number from the environment; see `make soak-worker`.
func soakSetting(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 {
		t.Fatalf("%s is %q, want a number above 0", variable, text)
	}
	return number
}

// soakTest is a test environment whose worker reaches its cloud through an interceptor.
type soakTest struct {
	testEnv
	cutter   *interceptor
	displays map[string]fileID // sockets and locks of X servers that must be removed
}

func newSoakTest(t *testing.T, slots int, environment ...string) soakTest {
	t.Helper()
	dsn := dbtest.NewDSN(t)
	c := startCloud(t, "DATABASE_URL="+dsn, "LOG_LEVEL=warn")
	a := c.signUp(t)
	a.setLimit(t, dbtest.Open(t, dsn, pg.Options{MaxOpen: 1}), slots)
	cut := newInterceptor(t, c.url)
	s := soakTest{cutter: cut, displays: map[string]fileID{}}
	s.testEnv = testEnv{account: a, cloud: c, worker: startWorker(t, c, a.key, append(environment, "SVC_CLOUD_URL="+cut.URL, "LOG_LEVEL=info")...)}
	return s
}

// TestSoak_KillsLeakNothing kills a worker, a browser or an X server in each phase of
// a launch, and checks that no resources leak and the slot is released.
func TestSoak_KillsLeakNothing(t *testing.T) {
	s := newSoakTest(t, 10)
	id := s.profile(t, cloudapi.CreateProfileRequest{BrowserVersion: s.worker.newestVersion(t)})
	all := killCases()
	if !testenv.Full() {
		all = oneCasePerPhase(all)
	}
	rounds, began := soakSetting(t, "SOAK_ROUNDS", len(all)), time.Now()
	for round := range rounds {
		death := all[round%len(all)]
		headless := death.victim != "X server" && round/len(all)%2 == 0
		t.Run(fmt.Sprintf("%d/%s/%s", round, death.victim, death.phase.name), func(t *testing.T) {
			s.round(t, workerapi.LaunchProfileRequest{ProfileId: &id, Browser: &workerapi.BrowserSettings{Headless: &headless}}, death.phase, death.victim)
		})
		if t.Failed() {
			t.Fatalf("stopped in round %d of %d", round+1, rounds)
		}
	}
	t.Logf("%d rounds in %v", rounds, time.Since(began).Round(time.Second))
}

// round launches a browser, kills the victim in the phase and fails the test if
// resources leak. It restarts the worker if it was the victim.
func (s soakTest) round(t *testing.T, request workerapi.LaunchProfileRequest, p phase, victim string) {
	var caught *heldCall
	if p.call != "" {
		caught = s.cutter.intercept(p.call, p.after)
		defer caught.release()
	}
	ctx, leave := context.WithTimeout(t.Context(), requestTimeout)
	defer leave()
	launched := make(chan *workerapi.LaunchProfileResult, 1)
	go func() {
		answer, err := s.worker.api.LaunchProfileWithResponse(ctx, request)
		if err != nil {
			answer = nil // the worker may have been killed
		}
		launched <- answer
	}()
	s.waitForPhase(t, p, caught, launched)
	killed := s.kill(victim)
	if caught != nil {
		caught.release()
	}
	if p.delay >= 0 && p.call != "end" { // otherwise waitForPhase has waited for the launch
		<-launched
	}
	t.Logf("killed: %s", killed)
	if victim == "worker" {
		assertGone(t, orphanTimeout, nil, s.worker.launches)
		s.worker.start(t)
	}
	s.endSessions(t)
	s.assertNoLeaks(t)
}

// waitForPhase waits until the launch is in the phase.
func (s soakTest) waitForPhase(t *testing.T, p phase, caught *heldCall, launched chan *workerapi.LaunchProfileResult) {
	t.Helper()
	if p.call == "end" || p.delay < 0 {
		answer := <-launched
		if answer == nil || answer.JSON201 == nil {
			t.Fatalf("not launched: %+v", answer)
		}
		if p.call == "end" {
			go func() {
				_, _ = s.worker.api.KillBrowserSessionWithResponse(context.Background(), answer.JSON201.Data.Id)
			}()
		}
	}
	switch {
	case caught != nil:
		select {
		case <-caught.reached:
		case <-time.After(requestTimeout):
			t.Fatalf("no %s reached the cloud", p.call)
		}
	case p.delay > 0:
		time.Sleep(rand.N(p.delay)) // any moment of the phase
	}
}

// kill kills the victim if it still exists.
func (s soakTest) kill(victim string) string {
	maps.Copy(s.displays, displayFiles(browserProcesses(s.worker.launches)))
	if victim == "worker" {
		s.worker.kill()
		return victim
	}
	part := map[string]string{"browser": "--remote-debugging-pipe", "X server": "Xvnc"}[victim]
	for _, p := range processes(func(p process) bool { return p.references(s.worker.launches) }) {
		if strings.Contains(p.command, part) && !strings.Contains(p.command, "--type=") {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
			return p.String()
		}
	}
	return "nothing, there was no " + victim
}

// endSessions ends the sessions that still run after the round.
func (s soakTest) endSessions(t *testing.T) {
	t.Helper()
	running := sharedapi.SessionStatusRunning // ended ones would fill the page
	answer, err := s.worker.api.ListBrowserSessionsWithResponse(t.Context(), &workerapi.ListBrowserSessionsParams{Status: &running, Limit: new(int32(100))})
	requireAnswer(t, err, answer, 200)
	for _, session := range answer.JSON200.Data.Items {
		s.worker.killSession(t, session.Id)
	}
}

// assertNoLeaks fails the test unless all resources of launches are released soon
// and no slot is used.
func (s soakTest) assertNoLeaks(t *testing.T) {
	t.Helper()
	eventually(t, 10*time.Second, "all resources are released", func() error {
		if left := browserProcesses(s.worker.launches); len(left) > 0 {
			return fmt.Errorf("%d processes remain: %v", len(left), left)
		}
		if left := directories(t, s.worker.launches); len(left) > 0 {
			return fmt.Errorf("launch directories remain: %v", left)
		}
		links, _ := filepath.Glob("/tmp/svc-tmp-*")
		for _, link := range links {
			if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, s.worker.launches+"/") {
				return fmt.Errorf("the link %s remains", link)
			}
		}
		for path, was := range s.displays {
			if now, ok := identify(path); ok && now == was {
				return fmt.Errorf("%s of an ended display remains", path)
			}
		}
		return nil
	})
	s.waitForSlots(t, 0, 45*time.Second) // heartbeats have an interval of 30 s
}

// fileID identifies a file, to detect a new file with the same name.
type fileID struct {
	inode   uint64
	changed syscall.Timespec
}

func identify(path string) (fileID, bool) {
	info, err := os.Lstat(path)
	if err != nil {
		return fileID{}, false
	}
	stat := info.Sys().(*syscall.Stat_t)
	return fileID{stat.Ino, stat.Ctim}, true
}

// displayFiles returns the sockets and lock files of the X servers.
func displayFiles(processes []process) map[string]fileID {
	paths := map[string]string{} // of sockets, by inode
	for line := range strings.Lines(readFile("/proc/net/unix")) {
		if fields := strings.Fields(line); len(fields) == 8 && strings.HasPrefix(fields[7], "/tmp/.X11-unix/X") {
			paths["socket:["+fields[6]+"]"] = fields[7]
		}
	}
	found := map[string]fileID{}
	for _, p := range processes {
		if !strings.Contains(p.command, "Xvnc") {
			continue
		}
		open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.pid))
		for _, descriptor := range open {
			target, _ := os.Readlink(descriptor)
			socket, ok := paths[target]
			if !ok {
				continue
			}
			for _, path := range []string{socket, "/tmp/." + filepath.Base(socket) + "-lock"} {
				if id, ok := identify(path); ok {
					found[path] = id
				}
			}
		}
	}
	return found
}

func readFile(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}
