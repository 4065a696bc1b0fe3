package rest

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/activity"
	"github.com/browser-svc/svc/cloud/internal/auth"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/pageapi"
)

// Sessions serves the sessions feed.
type Sessions struct {
	Feed feed
}

type feed interface {
	List(ctx context.Context, orgID uuid.UUID, f activity.Filter, r page.Request) (page.Page[activity.Session], error)
}

// ListSessions implements the operation listSessions.
func (h Sessions) ListSessions(ctx context.Context, r cloudapi.ListSessionsRequestObject) (cloudapi.ListSessionsResponseObject, error) {
	p := r.Params
	sortBy := valueOr(p.SortBy, "startedAt")
	found, err := h.Feed.List(ctx, auth.CallerFrom(ctx).OrgID,
		activity.Filter{Status: (*string)(p.Status), ProfileID: p.ProfileId, MachineID: p.MachineId, From: p.From, To: p.To},
		pageapi.Request(p.Page, p.Limit, string(sortBy), p.SortOrder))
	if err != nil {
		return nil, err
	}
	list := cloudapi.SessionList{Items: []cloudapi.Session{}, Pagination: pageapi.Pagination(found)}
	for _, item := range found.Items {
		list.Items = append(list.Items, sessionToAPI(item))
	}
	return cloudapi.ListSessions200JSONResponse{Success: true, Data: list}, nil
}

func sessionToAPI(s activity.Session) cloudapi.Session {
	return cloudapi.Session{
		Id:              s.ID,
		ProfileId:       s.ProfileID,
		ProfileName:     s.ProfileName,
		MachineId:       s.MachineID,
		LaunchId:        s.LaunchID,
		BrowserVersion:  s.BrowserVersion,
		Status:          sharedapi.SessionStatus(s.Status),
		EndReason:       (*sharedapi.NullableEndReason)(s.EndReason),
		StartedAt:       s.StartedAt,
		EndedAt:         s.EndedAt,
		DurationSeconds: int64(s.Duration / time.Second),
	}
}
