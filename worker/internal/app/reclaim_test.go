package app_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

func TestWorker_ReclaimsStaleSessionsAtStart(t *testing.T) {
	fake := cloudtest.New(t)
	fake.AddStaleSession("worker-1")
	fake.Script(cloudtest.Sessions, cloudtest.Reset) // the worker retries
	fake.Always(cloudtest.Heartbeat, cloudtest.Reset)
	startTestWorker(t, fake, func(c *app.Config) { c.WorkerID = "worker-1" })
	testenv.Eventually(t, "the session is reclaimed", func() bool { _, running := fake.Slots(); return running == 0 })
	if requests := fake.CallCount(cloudtest.Sessions); requests != 2 {
		t.Errorf("the cloud got %d requests", requests)
	}
}

func TestWorker_ReclaimsNothingOfOtherMachines(t *testing.T) {
	fake := cloudtest.New(t)
	fake.AddStaleSession("worker-2")
	startTestWorker(t, fake, func(c *app.Config) { c.WorkerID = "worker-1" })
	testenv.Eventually(t, "the worker asks for its sessions", func() bool { return fake.CallCount(cloudtest.Sessions) == 1 && fake.CallCount(cloudtest.Heartbeat) > 0 })
	if requests := fake.CallCount(cloudtest.Reclaim); requests != 0 {
		t.Errorf("got %d reclaim requests", requests)
	}
}

func TestWorker_WithoutAKeyReclaimsNothing(t *testing.T) {
	fake := cloudtest.New(t)
	fake.AddStaleSession("worker-1")
	r := startTestWorker(t, fake, func(c *app.Config) { c.WorkerID, c.OrganizationKey = "worker-1", "" })
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if requests := fake.CallCount(cloudtest.Sessions) + fake.CallCount(cloudtest.Reclaim); requests != 0 {
		t.Errorf("the cloud got %d requests", requests)
	}
}

func TestWorker_ReportsEarlierBoots(t *testing.T) {
	fake := cloudtest.New(t)
	r := startTestWorker(t, fake)
	testenv.Eventually(t, "a heartbeat", func() bool { return len(fake.Calls(cloudtest.Heartbeat)) > 0 })
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	first := fake.Calls(cloudtest.Heartbeat)[0].Heartbeat
	if first.PreviousBootIds == nil || len(*first.PreviousBootIds) != 0 {
		t.Errorf("the first boot reported earlier boots %v", first.PreviousBootIds)
	}
	r.start(t)
	var reported *[]uuid.UUID
	testenv.Eventually(t, "a heartbeat of the second boot", func() bool {
		for _, call := range fake.Calls(cloudtest.Heartbeat) {
			if call.Heartbeat.BootId != first.BootId {
				reported = call.Heartbeat.PreviousBootIds
				return true
			}
		}
		return false
	})
	if reported == nil || len(*reported) != 1 || (*reported)[0] != first.BootId {
		t.Errorf("the second boot reported earlier boots %v", reported)
	}
}
