package e2e

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

// holdings is what a worker's process has of the machine.
type holdings struct {
	kilobytes, threads, descriptors int
}

func (h holdings) String() string {
	return fmt.Sprintf("%.1f MB resident, %d threads, %d descriptors", float64(h.kilobytes)/1024, h.threads, h.descriptors)
}

func (w *worker) holdings(t *testing.T) holdings {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d", w.cmd.Process.Pid)
	var h holdings
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
	spareDescriptors = 4         // connections to the cloud and of this test that are kept for the next call
	spareThreads     = 6         // Go keeps its threads, and takes a few more when it has to
	spareKilobytes   = 40 * 1024 // and gives memory back when it likes
)

// TestManySessionsLeaveTheWorkerAsItWas opens many sessions at once, then many
// more one after the other.
func TestManySessionsLeaveTheWorkerAsItWas(t *testing.T) {
	atOnce, inSequence := soakSetting(t, "SOAK_AT_ONCE", 8), soakSetting(t, "SOAK_SEQUENCE", 20)
	s := newSoak(t, atOnce)
	id := s.profile(t, cloudapi.CreateProfileRequest{BrowserVersion: s.worker.version(t)})
	request := workerapi.LaunchProfileRequest{ProfileId: &id, Browser: &workerapi.BrowserSettings{Headless: new(true), TimeoutMs: new(int32(90_000))}}
	s.worker.end(t, s.worker.launch(t, request).Id) // what is made once, is made
	s.assertClean(t)
	before := s.worker.holdings(t)
	t.Logf("before: %v", before)

	began := time.Now()
	sessions := make([]uuid.UUID, atOnce)
	each(sessions, func(i int) { sessions[i] = s.worker.launch(t, request).Id })
	if t.Failed() {
		t.FailNow()
	}
	if charged := s.charged(t); int(charged.Current) != atOnce || int(charged.RunningSessions) != atOnce {
		t.Errorf("charged %d slots, %d running, want %d", charged.Current, charged.RunningSessions, atOnce)
	}
	t.Logf("%d sessions at once, running after %v: %v", atOnce, time.Since(began).Round(time.Millisecond), s.worker.holdings(t))
	began = time.Now()
	each(sessions, func(i int) { s.worker.end(t, sessions[i]) })
	t.Logf("ended after %v", time.Since(began).Round(time.Millisecond))
	s.assertClean(t)
	// Go keeps the threads and, for a while, the memory of a crowd; and each
	// caller keeps a connection, to the worker and from there to the cloud.
	crowd := s.worker.holdings(t)
	crowd.descriptors = before.descriptors + 2*atOnce
	s.assertHolds(t, "after them", crowd)
	crowd = s.worker.holdings(t)

	began = time.Now()
	for range inSequence {
		s.worker.end(t, s.worker.launch(t, request).Id)
	}
	t.Logf("%d sessions in sequence, each %v", inSequence, (time.Since(began) / time.Duration(inSequence)).Round(time.Millisecond))
	s.assertClean(t)
	s.assertHolds(t, "after those", crowd)
}

// each does it for all of them at the same time.
func each(all []uuid.UUID, do func(i int)) {
	var running sync.WaitGroup
	defer running.Wait()
	for i := range all {
		running.Go(func() { do(i) })
	}
}

// assertHolds fails unless the worker soon holds no more than that.
func (s soak) assertHolds(t *testing.T, when string, most holdings) {
	t.Helper()
	var now holdings
	eventually(t, 15*time.Second, "the worker holds what it held", func() error {
		now = s.worker.holdings(t)
		if now.descriptors > most.descriptors+spareDescriptors || now.threads > most.threads+spareThreads || now.kilobytes > most.kilobytes+spareKilobytes {
			return fmt.Errorf("%s: %v; it was %v", when, now, most)
		}
		return nil
	})
	t.Logf("%s: %v", when, now)
}
