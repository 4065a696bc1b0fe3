package e2e

import (
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

// orphanTime is how soon after its worker's death a browser is gone.
const orphanTime = 2 * time.Second

func TestBrowsersDieWithTheirWorkerAndTheNextBootGivesTheirSlotsBack(t *testing.T) {
	site := newSite(t)
	headless, headful := site.plain(t, true), site.plain(t, false)
	sessions := []workerapi.BrowserSession{site.worker.launch(t, headless), site.worker.launch(t, headful)}
	var all []traces
	for _, session := range sessions {
		all = append(all, site.worker.traces(t, session))
	}
	everything := browsers(site.worker.launches)

	site.worker.kill()
	assertGone(t, orphanTime, everything, site.worker.launches)
	for _, traces := range all {
		assertClosed(t, traces.port)
	}
	if charged := site.charged(t); charged.Current != 2 {
		t.Errorf("before the next boot, %d slots are taken, want 2: nobody told the cloud", charged.Current)
	}

	site.worker.start(t)
	assertNoDirectories(t, site.worker.launches)
	for _, traces := range all {
		traces.assertGone(t)
	}
	site.released(t, 0, 10*time.Second)
	for _, session := range sessions {
		row := site.feed(t, session.Id)
		if row.Status == sharedapi.SessionStatusRunning || row.EndedAt == nil || row.EndReason == nil {
			t.Errorf("the feed has not ended it: %+v", row)
		}
	}
	again := site.worker.launch(t, headless)
	answer, err := http.Get(site.worker.url + "/browsers/" + sessions[0].LaunchId.String() + "/view")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusNotFound {
		t.Errorf("the dead browser's page answers %s", answer.Status)
	}
	assertDrivable(t, again, page(t))
}

func TestAWorkerThatIsAskedToEndReportsItsBrowsers(t *testing.T) {
	site := newSite(t)
	var all []traces
	var sessions []workerapi.BrowserSession
	for _, headless := range []bool{true, false} {
		session := site.worker.launch(t, site.plain(t, headless))
		sessions, all = append(sessions, session), append(all, site.worker.traces(t, session))
	}
	site.worker.drain(t)
	for _, traces := range all {
		traces.assertGone(t)
	}
	if charged := site.charged(t); charged.Current != 0 { // told before the worker ended
		t.Errorf("%d slots are still taken", charged.Current)
	}
	for _, session := range sessions {
		site.assertFeed(t, session, sharedapi.SessionStatusKilled, sharedapi.EndReasonDrain)
	}
	if waiting, err := os.ReadDir(site.worker.dir + "/data/reports"); err != nil || len(waiting) > 0 {
		t.Errorf("reports still wait: %v, %v", waiting, err)
	}
}
