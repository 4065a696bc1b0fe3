package cloud_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/cloud"
	"github.com/browser-svc/svc/worker/internal/cloud/report"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

var eventTime = time.Date(2026, 1, 2, 3, 4, 5, 678000, time.UTC)

func started(profile uuid.UUID) report.Start {
	return report.Start{SessionID: uuid.New(), ProfileID: profile, LaunchID: uuid.New(), BrowserVersion: 156, Seq: 7, At: eventTime}
}

func ended(profile uuid.UUID) report.End {
	return report.End{SessionID: uuid.New(), ProfileID: profile, Status: "exited", Reason: "crash", At: eventTime}
}

func TestReportStart_SendsAllFields(t *testing.T) {
	fake, client := newFakeCloud(t)
	report := started(fake.Profile(156))
	report.Name, report.Metadata = "Nightly", map[string]string{"team": "checkout"}
	event := session.Event{ID: uuid.New(), Type: session.HandoverDone, At: eventTime, Outcome: "done", Seconds: new(0.0)}
	report.Events = []session.Event{event}
	if err := client.ReportStart(t.Context(), report); err != nil {
		t.Fatal(err)
	}
	got := fake.Calls()[0]
	want := cloudtest.Call{Operation: cloudtest.Start, Key: cloudtest.Key, ProfileID: report.ProfileID, SessionID: report.SessionID, Start: &cloudapi.StartSessionRequest{
		SessionId: report.SessionID, LaunchId: report.LaunchID, MachineId: machine.ID, BootId: machine.BootID, Seq: 7, BrowserVersion: 156, StartedAt: eventTime,
		Name: &report.Name, Metadata: (*sharedapi.Metadata)(&report.Metadata), Events: &cloudapi.ReportedEvents{
			{Id: event.ID, Type: cloudapi.ReportedEventTypeHandoverDone, At: eventTime, Outcome: new(cloudapi.HandoverOutcomeDone), Seconds: new(0.0)},
		},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("call (-want +got):\n%s", diff)
	}
}

func TestReportEnd_SendsAllFields(t *testing.T) {
	fake, client := newFakeCloud(t)
	report := ended(uuid.New())
	report.Network = &session.Network{NetworkTotals: session.NetworkTotals{BytesSent: 7, Denied: 1}, Hosts: []session.NetworkHost{
		{Host: "a.test", BytesSent: 7, Denied: []session.NetworkDenial{{Level: "launch", Rule: "connect.allow", Count: 1}}, Proxy: new("proxy.test:80")},
	}}
	event := session.Event{ID: uuid.New(), Type: session.RecordingReady, At: eventTime, Parts: []string{"video"}, State: "complete"}
	report.Events = []session.Event{event}
	if err := client.ReportEnd(t.Context(), report); err != nil {
		t.Fatal(err)
	}
	status, reason := cloudapi.EndedStatus("exited"), sharedapi.EndReason("crash")
	want := cloudtest.Call{Operation: cloudtest.End, Key: cloudtest.Key, ProfileID: report.ProfileID, SessionID: report.SessionID,
		End: &cloudapi.EndSessionRequest{Status: &status, EndReason: &reason, EndedAt: &report.At, Network: &cloudapi.SessionNetwork{
			Totals: sharedapi.NetworkTotals{BytesSent: 7, Denied: 1}, Items: []sharedapi.NetworkHost{
				{Host: "a.test", BytesSent: 7, Denied: []sharedapi.NetworkDenial{{Level: "launch", Rule: "connect.allow", Count: 1}}, Proxy: new("proxy.test:80")},
			},
		}, Events: &cloudapi.ReportedEvents{{Id: event.ID, Type: cloudapi.ReportedEventTypeRecordingReady, At: eventTime,
			Parts: &sharedapi.RecordedParts{"video"}, State: new(cloudapi.RecordingComplete)}}}}
	if diff := cmp.Diff(want, fake.Calls()[0]); diff != "" {
		t.Errorf("call (-want +got):\n%s", diff)
	}
}

// TestReports_EarlierCloudGetsWhatItKnows checks the reports to a cloud that refuses the fields and
// reasons of this version.
func TestReports_EarlierCloudGetsWhatItKnows(t *testing.T) {
	fake, client := newFakeCloud(t)
	refusal := cloudtest.Failure(fault.Validation, "The request is not valid.")
	profile := fake.Profile(156)
	fake.Script(cloudtest.Start, refusal)
	start := started(profile)
	start.Name, start.Metadata = "Nightly", map[string]string{"team": "checkout"}
	if err := client.ReportStart(t.Context(), start); err != nil {
		t.Fatal(err)
	}
	if sent := fake.Calls(cloudtest.Start)[0].Start; sent.Name != nil || sent.Metadata != nil || sent.SessionId != start.SessionID {
		t.Errorf("sent %+v", sent)
	}
	fake.Script(cloudtest.Start, refusal)
	repeated := started(profile)
	repeated.Name, repeated.Events = "Nightly", []session.Event{{ID: uuid.New(), Type: session.Expiring, At: eventTime, Reason: "idle", Until: eventTime}}
	if err := client.ReportStart(t.Context(), repeated); err != nil {
		t.Fatal(err)
	}
	if sent := fake.Calls(cloudtest.Start)[1].Start; sent.Events != nil || sent.Name == nil {
		t.Errorf("sent %+v", sent)
	}
	traced := started(profile) // as in the journal of an earlier worker
	traced.Recording = &session.Recording{Trace: true, URL: "http://worker/player"}
	if err := client.ReportStart(t.Context(), traced); err != nil {
		t.Fatal(err)
	}
	fake.Script(cloudtest.Start, refusal)
	traced = started(profile)
	traced.Recording = &session.Recording{Trace: true, URL: "http://worker/player", Viewer: "http://worker/viewer"}
	if err := client.ReportStart(t.Context(), traced); err != nil {
		t.Fatal(err)
	}
	for _, call := range fake.Calls(cloudtest.Start)[2:] {
		if sent := call.Start.Recording; sent == nil || sent.ViewerUrl != nil || !*sent.Trace {
			t.Errorf("sent %+v", sent)
		}
	}
	fake.Script(cloudtest.End, refusal)
	end := report.End{SessionID: start.SessionID, ProfileID: profile, Status: "killed", Reason: "never_connected", At: eventTime}
	if err := client.ReportEnd(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	if sent := fake.Calls(cloudtest.End)[0].End; *sent.EndReason != sharedapi.EndReasonIdle {
		t.Errorf("sent %+v", sent)
	}
	fake.Script(cloudtest.End, refusal)
	end.Reason, end.Events = "killed", repeated.Events
	if err := client.ReportEnd(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	if sent := fake.Calls(cloudtest.End)[1].End; sent.Events != nil {
		t.Errorf("sent %+v", sent)
	}
	fake.Script(cloudtest.End, refusal)
	end.Events, end.Network = nil, &session.Network{Hosts: []session.NetworkHost{}}
	if err := client.ReportEnd(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	if sent := fake.Calls(cloudtest.End)[2].End; sent.Network != nil || *sent.EndReason != sharedapi.EndReasonKilled {
		t.Errorf("sent %+v", sent)
	}
	fake.Script(cloudtest.Authorize, refusal)
	request := authorization(profile)
	request.Ends = []launch.Ended{{SessionID: start.SessionID, ProfileID: profile, Status: session.Killed, Reason: session.NeverConnected, At: eventTime}}
	if _, err := client.Authorize(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if sent := *(*fake.Calls(cloudtest.Authorize)[0].Authorize.Ends)[0].EndReason; sent != sharedapi.EndReasonIdle {
		t.Errorf("the request carries %s", sent)
	}
	if request.Ends[0].Reason != session.NeverConnected {
		t.Error("the caller's ends were changed")
	}
	for operation, fail := range map[cloudtest.Operation]func() error{
		cloudtest.Start: func() error { return client.ReportStart(t.Context(), started(profile)) },
		cloudtest.End:   func() error { return client.ReportEnd(t.Context(), ended(profile)) },
	} {
		fake.Script(operation, refusal)
		if err := fail(); !fault.Is(err, fault.Validation) { // a second request would be accepted
			t.Errorf("%s without new fields: %v", operation, err)
		}
	}
}

func TestHeartbeat_SendsAllFieldsAndReturnsAnswer(t *testing.T) {
	fake, client := newFakeCloud(t)
	fake.HeartbeatEvery(17 * time.Second)
	lost, kept := uuid.New(), uuid.New()
	fake.Forget(lost)
	for _, tc := range []struct {
		name     string
		sessions []uuid.UUID
		want     report.Heartbeat
	}{
		{"nothing runs", nil, report.Heartbeat{Applied: true, Released: []uuid.UUID{}, Unknown: []uuid.UUID{}, NextSeconds: 17}},
		{"one is unknown", []uuid.UUID{lost, kept}, report.Heartbeat{Applied: true, Released: []uuid.UUID{}, Unknown: []uuid.UUID{lost}, NextSeconds: 17}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := client.Heartbeat(t.Context(), session.OrganizationKey{}, 12, tc.sessions)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			calls := fake.Calls(cloudtest.Heartbeat)
			sent := calls[len(calls)-1].Heartbeat
			if sent.MachineId != machine.ID || sent.BootId != machine.BootID || sent.Seq != 12 || len(sent.Sessions) != len(tc.sessions) {
				t.Errorf("sent %+v", sent)
			}
		})
	}
}

func TestReports_RefusalKinds(t *testing.T) {
	fake, client := newFakeCloud(t)
	profile := uuid.New()
	reports := map[cloudtest.Operation]func(*cloud.Client) error{
		cloudtest.Start: func(c *cloud.Client) error { return c.ReportStart(t.Context(), started(profile)) },
		cloudtest.End:   func(c *cloud.Client) error { return c.ReportEnd(t.Context(), ended(profile)) },
		cloudtest.Heartbeat: func(c *cloud.Client) error {
			_, err := c.Heartbeat(t.Context(), session.OrganizationKey{}, 1, nil)
			return err
		},
	}
	everywhere := []cloudtest.Operation{cloudtest.Start, cloudtest.End, cloudtest.Heartbeat}
	startOnly := []cloudtest.Operation{cloudtest.Start}
	for _, tc := range []struct {
		name       string
		answer     cloudtest.Answer
		operations []cloudtest.Operation
		kind       fault.Kind
		message    string
	}{
		{"402", cloudtest.Failure(fault.PaymentRequired, "All slots are taken."), startOnly, fault.PaymentRequired, "All slots are taken."},
		{"409", cloudtest.Failure(fault.Conflict, "It has ended."), startOnly, fault.Conflict, "It has ended."},
		{"404", cloudtest.Failure(fault.NotFound, "No such profile."), []cloudtest.Operation{cloudtest.Start, cloudtest.End}, fault.NotFound, "No such profile."},
		{"401", cloudtest.Failure(fault.Unauthenticated, "no"), everywhere, fault.OwnKeyRefused, keyRefused},
		{"500", cloudtest.Failure(fault.Internal, "no"), everywhere, fault.Unavailable, notNow},
		{"a page", cloudtest.Raw(502, "text/html", "<html>"), everywhere, fault.Unavailable, invalidAnswer},
		{"no JSON", cloudtest.JSON(200, "{"), []cloudtest.Operation{cloudtest.End, cloudtest.Heartbeat}, fault.Unavailable, invalidAnswer},
		{"a broken connection", cloudtest.Reset, everywhere, fault.Unavailable, callFault},
	} {
		for _, operation := range tc.operations {
			t.Run(tc.name+" to "+string(operation), func(t *testing.T) {
				fake.Script(operation, tc.answer)
				err := reports[operation](client)
				assertFault(t, err, tc.kind, tc.message)
				if none := errors.Is(err, report.ErrNoAnswer); none != (tc.message == callFault) {
					t.Errorf("ErrNoAnswer is %v for: %v", none, err)
				}
			})
		}
	}
}
