package cloud_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/cloud"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

func TestHeartbeat_ReportsMachineOnceAndAfterChange(t *testing.T) {
	fake, client := newFakeCloud(t)
	report := cloud.MachineReport{HostName: "browsers-1", WorkerID: "worker-1", Version: "1.2.3", Contract: "1.0.0", PublicURL: "https://edge.example/w/worker-1", MaxSessions: 8}
	client.DescribeMachine(func() cloud.MachineReport { return report })
	send := func(key session.OrganizationKey) (*cloudapi.MachineReport, error) {
		_, err := client.Heartbeat(t.Context(), key, 1, nil)
		calls := fake.Calls(cloudtest.Heartbeat)
		return calls[len(calls)-1].Heartbeat.Machine, err
	}
	want := func(what string, want *cloudapi.MachineReport) {
		t.Helper()
		got, err := send(session.OrganizationKey{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	if got, err := send(session.NewOrganizationKey(cloudtest.Key)); got != nil || err != nil {
		t.Errorf("a caller's organization gets %+v (%v)", got, err)
	}
	want("the first heartbeat", &cloudapi.MachineReport{HostName: "browsers-1", WorkerId: new("worker-1"), Version: "1.2.3",
		ContractVersion: new("1.0.0"), PublicUrl: new("https://edge.example/w/worker-1"), Capacity: new(int32(8))})
	want("an unchanged report", nil)
	report.Draining, report.MaxSessions, report.WorkerID = true, 0, ""
	report.PublicURL = "https://edge.example/é" // the cloud would refuse it
	draining := &cloudapi.MachineReport{HostName: "browsers-1", Version: "1.2.3", ContractVersion: new("1.0.0"), Draining: true}
	fake.Script(cloudtest.Heartbeat, cloudtest.Failure(fault.Internal, "no"))
	if _, err := send(session.OrganizationKey{}); err == nil {
		t.Fatal("no error")
	}
	want("a change that was not delivered", draining)
	want("an unchanged report", nil)
}

func TestMachineReports_RepeatUnchangedReport(t *testing.T) {
	now := time.Now()
	reports := cloud.NewMachineReports(func() cloud.MachineReport { return cloud.MachineReport{HostName: "a"} })
	first := reports.Due(now)
	if first == nil || reports.Due(now) == nil {
		t.Fatal("no report is due although none was delivered")
	}
	reports.SetDelivered(first, now)
	if got := reports.Due(now.Add(5*time.Minute - 1)); got != nil {
		t.Errorf("%+v is due within the interval", got)
	}
	if reports.Due(now.Add(5*time.Minute)) == nil {
		t.Error("no report is due after the interval")
	}
	if cloud.NewMachineReports(nil).Due(now) != nil {
		t.Error("a report is due without a description")
	}
}
