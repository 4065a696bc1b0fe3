package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/browser-svc/svc/db/dbtest"
)

// assertDuplicateWorker fails the test unless the cloud charges the number of
// sessions and reports, or does not report, the machine as duplicate.
func (s testEnv) assertDuplicateWorker(t *testing.T, current int32, twice bool) {
	t.Helper()
	charged := s.usage(t)
	if charged.Current != current || len(charged.DuplicateMachines) == 1 != twice {
		t.Errorf("the cloud charges %d sessions and reports %+v", charged.Current, charged.DuplicateMachines)
	}
}

// TestMachine_ReportsDuplicateWorkerIDs starts a second worker with the WORKER_ID
// of a worker that runs as many browsers as the limit allows. A worker that was
// killed and restarted is not reported as duplicate.
func TestMachine_ReportsDuplicateWorkerIDs(t *testing.T) {
	t.Parallel()
	c := startCloud(t, "DATABASE_URL="+dbtest.NewDSN(t))
	a := c.signUp(t)
	s := testEnv{account: a, cloud: c, worker: startWorker(t, c, a.key, "WORKER_ID=worker-1")}
	request := s.newLaunchRequest(t, true)
	s.worker.launch(t, request)
	s.worker.launch(t, request)
	s.worker.kill()
	s.worker.start(t)
	s.waitForSlots(t, 0, 5*time.Second) // the first heartbeat of the new boot releases them
	for range freeSlots {
		s.worker.launch(t, request)
	}
	s.assertDuplicateWorker(t, freeSlots, false)

	second := startWorker(t, c, a.key, "WORKER_ID=worker-1")
	eventually(t, 5*time.Second, "the duplicate machine is reported", func() error {
		if found := s.usage(t); found.Current != freeSlots || len(found.DuplicateMachines) != 1 {
			return fmt.Errorf("%d sessions are charged, duplicates: %+v", found.Current, found.DuplicateMachines)
		}
		return nil
	})
	second.requireLaunchRefused(t, request, http.StatusPaymentRequired)
	s.worker.requireLaunchRefused(t, request, http.StatusPaymentRequired)
	s.assertDuplicateWorker(t, freeSlots, true)
}
