package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
)

// resourceUsage is the resource usage of a worker process.
type resourceUsage struct {
	kilobytes, threads, descriptors int
}

func (h resourceUsage) String() string {
	return fmt.Sprintf("%.1f MB resident, %d threads, %d descriptors", float64(h.kilobytes)/1024, h.threads, h.descriptors)
}

func (w *worker) resourceUsage(t *testing.T) resourceUsage {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d", w.cmd.Process.Pid)
	var h resourceUsage
	for line := range strings.Lines(readFile(proc + "/status")) {
		_, _ = fmt.Sscanf(line, "VmRSS: %d kB", &h.kilobytes)
		_, _ = fmt.Sscanf(line, "Threads: %d", &h.threads)
	}
	open, err := os.ReadDir(proc + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	h.descriptors = len(open)
	return h
}

const (
	slackDescriptors = 4         // idle connections to the cloud and of this test
	slackThreads     = 6         // Go does not end threads, and may start a few more
	slackKilobytes   = 40 * 1024 // Go returns memory to the system late
)

// TestSoak_ManySessionsLeakNothing runs many sessions concurrently, then many
// sessions in sequence.
func TestSoak_ManySessionsLeakNothing(t *testing.T) {
	atOnce, inSequence := soakSetting(t, "SOAK_AT_ONCE", testenv.Depth(5, 8)), soakSetting(t, "SOAK_SEQUENCE", testenv.Depth(6, 20))
	s := newSoakTest(t, atOnce)
	id := s.profile(t, cloudapi.CreateProfileRequest{BrowserVersion: s.worker.newestVersion(t)})
	request := workerapi.LaunchProfileRequest{ProfileId: &id, Browser: &workerapi.BrowserSettings{Headless: new(true), TimeoutMs: new(int32(90_000))}}
	s.worker.killSession(t, s.worker.launch(t, request).Id) // allocate everything that is allocated once
	s.assertNoLeaks(t)
	before := s.worker.resourceUsage(t)
	t.Logf("before: %v", before)

	began := time.Now()
	sessions := make([]uuid.UUID, atOnce)
	runConcurrently(sessions, func(i int) { sessions[i] = s.worker.launch(t, request).Id })
	if t.Failed() {
		t.FailNow()
	}
	if charged := s.usage(t); int(charged.Current) != atOnce || int(charged.RunningSessions) != atOnce {
		t.Errorf("charged %d slots, %d running, want %d", charged.Current, charged.RunningSessions, atOnce)
	}
	t.Logf("%d sessions at once, running after %v: %v", atOnce, time.Since(began).Round(time.Millisecond), s.worker.resourceUsage(t))
	began = time.Now()
	runConcurrently(sessions, func(i int) { s.worker.killSession(t, sessions[i]) })
	t.Logf("ended after %v", time.Since(began).Round(time.Millisecond))
	s.assertNoLeaks(t)
	// Go keeps its threads and, for some time, its memory. Each caller keeps an idle
	// connection to the worker, and the worker keeps one to the cloud.
	limits := s.worker.resourceUsage(t)
	limits.descriptors = before.descriptors + 2*atOnce
	s.assertResourceUsage(t, "after them", limits)
	limits = s.worker.resourceUsage(t)

	began = time.Now()
	for range inSequence {
		s.worker.killSession(t, s.worker.launch(t, request).Id)
	}
	t.Logf("%d sessions in sequence, each %v", inSequence, (time.Since(began) / time.Duration(inSequence)).Round(time.Millisecond))
	s.assertNoLeaks(t)
	s.assertResourceUsage(t, "after those", limits)
}

// runConcurrently calls do for all indexes concurrently.
func runConcurrently(all []uuid.UUID, do func(i int)) {
	var running sync.WaitGroup
	defer running.Wait()
	for i := range all {
		running.Go(func() { do(i) })
	}
}

// assertResourceUsage fails the test unless the usage drops to the maximum soon.
func (s soakTest) assertResourceUsage(t *testing.T, when string, most resourceUsage) {
	t.Helper()
	var now resourceUsage
	eventually(t, 15*time.Second, "the resource usage drops", func() error {
		// The worker collects garbage after some requests. Only then Go closes the pipes that it
		// caches for splice.
		for range 50 {
			answer, err := s.worker.api.GetFleetStatusWithResponse(t.Context())
			requireAnswer(t, err, answer, http.StatusOK)
		}
		now = s.worker.resourceUsage(t)
		if now.descriptors > most.descriptors+slackDescriptors || now.threads > most.threads+slackThreads || now.kilobytes > most.kilobytes+slackKilobytes {
			return fmt.Errorf("%s: %v, maximum %v", when, now, most)
		}
		return nil
	})
	t.Logf("%s: %v", when, now)
}
