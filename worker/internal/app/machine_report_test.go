package app_test

import (
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// lastReport returns the last report of the machine that the cloud got, or nil.
func lastReport(fake *cloudtest.Cloud) (last *cloudapi.MachineReport) {
	for _, call := range fake.Calls(cloudtest.Heartbeat) {
		if call.Heartbeat.Machine != nil {
			last = call.Heartbeat.Machine
		}
	}
	return last
}

func TestHeartbeat_ReportsMachineWithoutSessionsAndDrainAtOnce(t *testing.T) {
	fake := cloudtest.New(t)
	fake.HeartbeatEvery(time.Hour)
	r := startTestWorker(t, fake, func(c *app.Config) { c.MaxSessions = 3 })
	testenv.Eventually(t, "the first heartbeat reports the machine", func() bool { return lastReport(fake) != nil })
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if got := lastReport(fake); got.HostName != name || got.Version == "" || got.ContractVersion == nil || *got.ContractVersion == "" ||
		got.PublicUrl == nil || *got.PublicUrl != fmt.Sprintf("http://localhost:%d", r.config.Port) || got.WorkerId != nil || got.Capacity == nil || *got.Capacity != 3 || got.Draining {
		t.Errorf("report %+v", got)
	}
	if status, _ := r.call(t.Context(), t, "POST", "/fleet/drain", "", "X-API-Key", workerKey); status != http.StatusOK {
		t.Fatal(status)
	}
	testenv.Eventually(t, "a heartbeat reports the drain", func() bool { return lastReport(fake).Draining })
	r.call(t.Context(), t, "DELETE", "/fleet/drain", "", "X-API-Key", workerKey)
	testenv.Eventually(t, "a heartbeat reports the end of the drain", func() bool { return !lastReport(fake).Draining })
}
