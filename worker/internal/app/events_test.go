package app_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// awaitEvents waits until the cloud has received events of these types, in this order. A
// report can repeat events of an earlier one.
func (r *testWorker) awaitEvents(t *testing.T, types ...cloudapi.ReportedEventType) (received []cloudapi.ReportedEvent) {
	t.Helper()
	testenv.Eventually(t, fmt.Sprintf("the events %v", types), func() bool {
		received = nil
		known := map[uuid.UUID]bool{}
		var got []cloudapi.ReportedEventType
		for _, call := range r.cloud.Calls(cloudtest.Start, cloudtest.End) {
			var events *cloudapi.ReportedEvents
			if call.Operation == cloudtest.Start {
				events = call.Start.Events
			} else {
				events = call.End.Events
			}
			if events == nil {
				continue
			}
			for _, e := range *events {
				if !known[e.Id] {
					known[e.Id], received, got = true, append(received, e), append(got, e.Type)
				}
			}
		}
		return fmt.Sprint(got) == fmt.Sprint(types)
	})
	return received
}

// TestEvents_AreReported checks what the cloud learns of a handover, of a limit and of a
// recording.
func TestEvents_AreReported(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withFiles)
	s := r.launchRecorded(t, newRecordedSite(t), true, `["events","har"]`)
	h := r.handovers(s)
	open := h.start(t)
	h.ask(t, "POST", "/handover/done", `{"note":"The note stays here."}`, 200)
	limited := r.session(t, "PATCH", "/sessions/"+s.Id.String(), `{"maxDurationSeconds":61}`)
	r.awaitEvents(t, cloudapi.ReportedEventTypeHandoverRequested, cloudapi.ReportedEventTypeHandoverDone, cloudapi.ReportedEventTypeSessionExpiring)
	r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
	got := r.awaitEvents(t, cloudapi.ReportedEventTypeHandoverRequested, cloudapi.ReportedEventTypeHandoverDone, cloudapi.ReportedEventTypeSessionExpiring,
		cloudapi.ReportedEventTypeRecordingReady)
	if requested := got[0]; *requested.Reason != open.Reason || !requested.Until.Equal(open.Until) {
		t.Errorf("got %+v", requested)
	}
	if done := got[1]; *done.Outcome != cloudapi.HandoverOutcomeDone || *done.Seconds <= 0 {
		t.Errorf("got %+v", done)
	}
	if expiring := got[2]; *expiring.Reason != "max_duration" || !expiring.Until.Equal(limited.StartedAt.Add(61*time.Second)) {
		t.Errorf("got %+v", expiring)
	}
	if ready := got[3]; fmt.Sprint(*ready.Parts) != "[events har]" || *ready.State != cloudapi.RecordingComplete {
		t.Errorf("got %+v", ready)
	}
	if text := fmt.Sprintf("%+v", got); strings.Contains(text, "note") {
		t.Errorf("got %s", text)
	}
}
