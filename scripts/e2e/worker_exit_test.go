package e2e

import (
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

// orphanTimeout is the time within which a browser must exit after its worker died.
// The kernel kills it at once. A busy machine needs seconds to remove its processes.
const orphanTimeout = 60 * time.Second

func TestWorkerKill_EndsBrowsersAndNextBootReleasesSlots(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	headless, headful := env.newLaunchRequest(t, true), env.newLaunchRequest(t, false)
	sessions := []workerapi.BrowserSession{env.worker.launch(t, headless), env.worker.launch(t, headful)}
	var all []launchResources
	for _, session := range sessions {
		all = append(all, env.worker.launchResources(t, session))
	}
	everything := browserProcesses(env.worker.launches)

	env.worker.kill()
	assertGone(t, orphanTimeout, everything, env.worker.launches)
	for _, traces := range all {
		assertClosed(t, traces.port)
	}
	if charged := env.usage(t); charged.Current != 2 {
		t.Errorf("before the next boot, %d slots are used, want 2, because the cloud got no report", charged.Current)
	}

	env.worker.start(t)
	assertNoDirectories(t, env.worker.launches)
	for _, traces := range all {
		traces.assertReleased(t)
	}
	env.waitForSlots(t, 0, 10*time.Second)
	for _, session := range sessions {
		row := env.session(t, session.Id)
		if row.Status == sharedapi.SessionStatusRunning || row.EndedAt == nil || row.EndReason == nil {
			t.Errorf("the session has not ended in the feed: %+v", row)
		}
	}
	again := env.worker.launch(t, headless)
	answer, err := http.Get(env.worker.url + "/browsers/" + sessions[0].LaunchId.String() + "/view")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusNotFound {
		t.Errorf("the page of the ended browser returned %s", answer.Status)
	}
	assertDrivable(t, again, servePage(t))
}

func TestWorkerStop_ReportsSessionEnds(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	var all []launchResources
	var sessions []workerapi.BrowserSession
	for _, headless := range []bool{true, false} {
		session := env.worker.launch(t, env.newLaunchRequest(t, headless))
		sessions, all = append(sessions, session), append(all, env.worker.launchResources(t, session))
	}
	env.worker.drain(t)
	for _, traces := range all {
		traces.assertReleased(t)
	}
	if charged := env.usage(t); charged.Current != 0 { // reported before the worker exited
		t.Errorf("%d slots are still used", charged.Current)
	}
	for _, session := range sessions {
		env.assertFeed(t, session, sharedapi.SessionStatusKilled, sharedapi.EndReasonDrain)
	}
	if waiting, err := os.ReadDir(env.worker.dir + "/data/reports"); err != nil || len(waiting) > 0 {
		t.Errorf("reports are still queued: %v, %v", waiting, err)
	}
}
