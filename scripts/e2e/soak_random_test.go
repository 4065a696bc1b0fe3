package e2e

import (
	"math/rand/v2"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
)

// TestSoak_RandomScenarios runs all scenarios in random order, several at once, for SOAK_SECONDS, at
// least once. It checks the end of each session on the worker and in the cloud, and that no resources
// leak.
func TestSoak_RandomScenarios(t *testing.T) {
	t.Parallel()
	s := newSoakTest(t, 50, "WARM_POOL=1", "FREEZE_IDLE_SECONDS=1")
	test := scenarioTest{soakTest: s, cutting: newCuttingProxy(t, s.worker.address)}
	test.profileID = s.profile(t, cloudapi.CreateProfileRequest{BrowserVersion: s.worker.newestVersion(t)})
	if _, err := test.driveThen(t.Context(), s.worker.delete); err != nil { // allocate everything that is allocated once
		t.Fatal(err)
	}
	before := s.drain(t)
	s.resume(t)
	ended := test.runRandomly(t, time.Duration(soakSetting(t, "SOAK_SECONDS", 1))*time.Second)
	s.endSessions(t)
	s.drain(t)
	for id, reason := range ended {
		answer, err := s.dashboard.GetSessionWithResponse(t.Context(), id)
		requireAnswer(t, err, answer, http.StatusOK)
		if got := answer.JSON200.Data.EndReason; got == nil || string(*got) != reason {
			t.Errorf("session %s ended for %s on the worker, and for %v in the cloud", id, reason, got)
		}
	}
	before.threads += 10     // Go keeps as many as were needed at once
	before.descriptors += 10 // idle connections to the cloud stay open for 90 s
	s.assertResourceUsage(t, "after the scenarios", before)
}

// runRandomly runs all scenarios in random order, several at once, until the duration is over, at least
// once. It returns the end reasons of the sessions.
func (s scenarioTest) runRandomly(t *testing.T, duration time.Duration) (ended map[uuid.UUID]string) {
	t.Helper()
	end := time.Now().Add(duration)
	scheduled := make(chan soakScenario)
	go func() {
		defer close(scheduled)
		for first := true; first || time.Now().Before(end); first = false {
			all := soakScenarios()
			rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			for _, scenario := range all {
				if first || time.Now().Before(end) {
					scheduled <- scenario
				}
			}
		}
	}()
	var mu sync.Mutex
	var running sync.WaitGroup
	counts := map[string]int{}
	ended = map[uuid.UUID]string{}
	for range min(runtime.NumCPU()+1, 8) {
		running.Go(func() {
			for scenario := range scheduled {
				session, err := s.run(t.Context(), scenario)
				if err != nil {
					t.Errorf("%s: %v", scenario.name, err)
				}
				mu.Lock()
				counts[scenario.name]++
				if session != nil {
					ended[session.Id] = string(*session.EndReason)
				}
				mu.Unlock()
			}
		})
	}
	running.Wait()
	t.Logf("scenarios: %v", counts)
	return ended
}

// drain ends the warm browsers, waits until the worker holds no browser, and returns what it uses.
func (s soakTest) drain(t *testing.T) resourceUsage {
	t.Helper()
	drained, err := s.worker.api.DrainWorkerWithResponse(t.Context())
	requireAnswer(t, err, drained, http.StatusOK)
	s.assertNoLeaks(t)
	return s.worker.resourceUsage(t)
}

func (s soakTest) resume(t *testing.T) {
	t.Helper()
	resumed, err := s.worker.api.ResumeWorkerWithResponse(t.Context())
	requireAnswer(t, err, resumed, http.StatusOK)
}
