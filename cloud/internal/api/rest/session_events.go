package rest

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/tenancy/webhook"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/settings"
)

// sessionEvents records events that workers report. It needs no connection that other
// operations of an organization can occupy.
type sessionEvents interface {
	Report(ctx context.Context, orgID, sessionID uuid.UUID, machineID *string, events []webhook.SessionEvent) error
}

// neededFields are the fields that each type of event needs.
var neededFields = map[cloudapi.ReportedEventType][]string{
	cloudapi.ReportedEventTypeSessionExpiring:   {"reason", "until"},
	cloudapi.ReportedEventTypeHandoverRequested: {"reason", "until"},
	cloudapi.ReportedEventTypeHandoverDone:      {"outcome", "seconds"},
	cloudapi.ReportedEventTypeRecordingReady:    {"parts", "state"},
}

// reportedEvents converts the events of a report. Error: Validation with all missing fields.
func reportedEvents(reported *cloudapi.ReportedEvents) ([]webhook.SessionEvent, error) {
	var events []webhook.SessionEvent
	var missing []fault.Detail
	for i, each := range valueOr(reported, nil) {
		fields, err := settings.Convert[map[string]any](each)
		if err != nil {
			return nil, err
		}
		data := map[string]any{"at": fields["at"]}
		for _, name := range neededFields[each.Type] {
			if data[name] = fields[name]; data[name] == nil {
				missing = append(missing, fault.Detail{
					Field: fmt.Sprintf("events[%d].%s", i, name), Code: fault.Required, Message: "is required for " + string(each.Type),
				})
			}
		}
		events = append(events, webhook.SessionEvent{ID: each.Id, Type: string(each.Type), Data: data})
	}
	if len(missing) > 0 {
		return nil, fault.Invalid(missing...)
	}
	return events, nil
}
