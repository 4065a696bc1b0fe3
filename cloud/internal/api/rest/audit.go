package rest

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/platform/audit"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/pageapi"
)

// Audit serves the Audit operations.
type Audit struct {
	Events events
}

type events interface {
	List(ctx context.Context, orgID uuid.UUID, f audit.Filter, r page.Request) (page.Page[audit.Event], error)
}

// ListAuditEvents implements the operation listAuditEvents.
func (h Audit) ListAuditEvents(ctx context.Context, r cloudapi.ListAuditEventsRequestObject) (cloudapi.ListAuditEventsResponseObject, error) {
	p := r.Params
	sortBy := valueOr(p.SortBy, "createdAt")
	found, err := h.Events.List(ctx, auth.CallerFrom(ctx).OrgID,
		audit.Filter{Action: p.Action, ActorID: p.ActorId, TargetID: p.TargetId, From: utcTime(p.From), To: utcTime(p.To)},
		pageapi.Request(p.Page, p.Limit, string(sortBy), p.SortOrder))
	if err != nil {
		return nil, err
	}
	list := cloudapi.AuditEventList{Items: []cloudapi.AuditEvent{}, Pagination: pageapi.Pagination(found)}
	for _, item := range found.Items {
		event, err := auditEvent(item)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, event)
	}
	return cloudapi.ListAuditEvents200JSONResponse{Success: true, Data: list}, nil
}

func auditEvent(e audit.Event) (cloudapi.AuditEvent, error) {
	details := cloudapi.AuditDetails{}
	if err := json.Unmarshal(e.Details, &details); err != nil {
		return cloudapi.AuditEvent{}, fmt.Errorf("read the details of event %s: %w", e.ID, err)
	}
	return cloudapi.AuditEvent{
		Id: e.ID, Action: e.Action, TargetId: e.TargetID,
		Actor:         cloudapi.AuditActor{Type: cloudapi.AuditActorType(e.ActorType), Id: e.ActorID, Email: e.ActorEmail, Name: e.ActorName},
		ClientAddress: e.ClientAddress, RequestId: e.RequestID, Details: details, CreatedAt: e.CreatedAt,
	}, nil
}
