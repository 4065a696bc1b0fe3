package rest

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/browsers/activity"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/pageapi"
)

// Sessions serves the sessions feed.
type Sessions struct {
	Feed     feed
	Licenses sessionLicenses
}

type feed interface {
	Get(ctx context.Context, orgID, sessionID uuid.UUID) (activity.Detail, error)
	List(ctx context.Context, orgID uuid.UUID, f activity.Filter, r page.Request) (activity.Listing, error)
	ListAfter(ctx context.Context, orgID uuid.UUID, f activity.Filter, r page.Request, cursor string) (activity.Listing, error)
}

// ListSessions implements the operation listSessions.
func (h Sessions) ListSessions(ctx context.Context, r cloudapi.ListSessionsRequestObject) (cloudapi.ListSessionsResponseObject, error) {
	p := r.Params
	filter := activity.Filter{Status: (*string)(p.Status), ProfileID: p.ProfileId, MachineID: p.MachineId, KeyID: p.KeyId, From: utcTime(p.From), To: utcTime(p.To)}
	filter.Name = p.Name
	for _, label := range valueOr(p.Metadata, nil) {
		name, value, _ := strings.Cut(label, "=")
		filter.Metadata = append(filter.Metadata, activity.Metadata{name: value})
	}
	request := pageapi.Request(p.Page, p.Limit, string(valueOr(p.SortBy, "startedAt")), p.SortOrder)
	var found activity.Listing
	var err error
	if p.Cursor == nil {
		found, err = h.Feed.List(ctx, auth.CallerFrom(ctx).OrgID, filter, request)
	} else {
		found, err = h.Feed.ListAfter(ctx, auth.CallerFrom(ctx).OrgID, filter, request, *p.Cursor)
	}
	if err != nil {
		return nil, err
	}
	list := cloudapi.SessionList{Items: []cloudapi.Session{}, Pagination: sessionPagination(found, p.Cursor != nil)}
	if found.Next != "" {
		list.NextCursor = &found.Next
	}
	for _, item := range found.Items {
		list.Items = append(list.Items, sessionToAPI(item))
	}
	return cloudapi.ListSessions200JSONResponse{Success: true, Data: list}, nil
}

func sessionPagination(l activity.Listing, afterCursor bool) cloudapi.SessionPagination {
	counted := pageapi.Pagination(l.Page)
	if afterCursor {
		return cloudapi.SessionPagination{Limit: counted.Limit, HasNext: l.Next != "", HasPrev: true}
	}
	return cloudapi.SessionPagination{
		Page: &counted.Page, Limit: counted.Limit, Total: &counted.Total, TotalPages: &counted.TotalPages,
		HasNext: counted.HasNext, HasPrev: counted.HasPrev,
	}
}

func sessionToAPI(s activity.Session) cloudapi.Session {
	var recording *cloudapi.SessionRecording
	if r := s.Recording; r != nil {
		recording = &cloudapi.SessionRecording{Video: r.Video, Events: r.Events, Frames: &r.Frames, Har: &r.HAR, Trace: &r.Trace, Url: r.URL}
		if r.Viewer != "" {
			recording.ViewerUrl = &r.Viewer
		}
	}
	return cloudapi.Session{
		Recording:       recording,
		Id:              s.ID,
		ProfileId:       s.ProfileID,
		ProfileName:     s.ProfileName,
		MachineId:       s.MachineID,
		KeyId:           s.KeyID,
		LaunchId:        s.LaunchID,
		BrowserVersion:  s.BrowserVersion,
		Status:          sharedapi.SessionStatus(s.Status),
		EndReason:       (*sharedapi.SessionEndReason)(s.EndReason),
		StartedAt:       s.StartedAt,
		EndedAt:         s.EndedAt,
		DurationSeconds: int64(s.Duration / time.Second),
		Name:            s.Name,
		Metadata:        nonNilMap(s.Metadata),
		Network:         networkTotals(s),
	}
}
