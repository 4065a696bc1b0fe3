package cloud_test

import (
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/cloud"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

func TestHeartbeat_SendsEarlierBootsUntilApplied(t *testing.T) {
	for name, before := range map[string][]uuid.UUID{"some": {uuid.New(), uuid.New()}, "none": {}} {
		t.Run(name, func(t *testing.T) {
			fake := cloudtest.New(t)
			const callers = "svc_callerscallerscallerscallerscalle"
			fake.AddKey(callers)
			successor := machine
			successor.Predecessors = before
			client, err := cloud.New(fake.URL, cloudtest.Key, successor, nil, nil, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			own, foreign := session.OrganizationKey{}, session.NewOrganizationKey(callers)
			beat := func(key session.OrganizationKey) {
				t.Helper()
				if _, err := client.Heartbeat(t.Context(), key, 1, nil); err != nil {
					t.Fatal(err)
				}
			}
			began := started(fake.Profile(156))
			if err := client.ReportStart(t.Context(), began); err != nil {
				t.Fatal(err)
			}
			fake.Script(cloudtest.Heartbeat, cloudtest.Reset)
			if _, err := client.Heartbeat(t.Context(), own, 1, nil); err == nil {
				t.Fatal("got an answer, want an error")
			}
			beat(own)
			beat(own)
			beat(foreign)
			beat(foreign)
			if err := client.ReportStart(t.Context(), started(fake.Profile(156))); err != nil {
				t.Fatal(err)
			}
			var reported []*[]uuid.UUID
			for _, call := range fake.Calls() {
				switch call.Operation {
				case cloudtest.Heartbeat:
					reported = append(reported, call.Heartbeat.PreviousBootIds)
				case cloudtest.Start:
					reported = append(reported, call.Start.PreviousBootIds)
				}
			}
			if diff := cmp.Diff([]*[]uuid.UUID{&before, &before, nil, &before, nil, nil}, reported); diff != "" {
				t.Errorf("predecessors (-want +got):\n%s", diff)
			}
		})
	}
}
