package rest

import (
	"context"
	"strings"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/pageapi"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// LaunchProfile launches a browser.
func (s *Server) LaunchProfile(ctx context.Context, r workerapi.LaunchProfileRequestObject) (workerapi.LaunchProfileResponseObject, error) {
	request, err := LaunchRequest(*r.Body)
	if err != nil {
		return nil, err
	}
	launched, err := s.Launches.Launch(ctx, request)
	if err != nil {
		return nil, err
	}
	data, err := s.sessionToAPI(launched)
	if err != nil {
		return nil, err
	}
	return workerapi.LaunchProfile201JSONResponse{
		Body:    workerapi.BrowserSessionResponse{Success: true, Data: data},
		Headers: workerapi.LaunchProfile201ResponseHeaders{Location: s.Links.Address.Path("/sessions/" + launched.ID.String())},
	}, nil
}

// ListBrowserSessions lists running sessions and those that ended in the last
// hour.
func (s *Server) ListBrowserSessions(_ context.Context, r workerapi.ListBrowserSessionsRequestObject) (workerapi.ListBrowserSessionsResponseObject, error) {
	p := r.Params
	filter := session.Filter{Status: session.Status(valueOr(p.Status, "")), Name: valueOr(p.Name, "")}
	for _, label := range valueOr(p.Metadata, nil) {
		name, value, _ := strings.Cut(label, "=")
		filter.Metadata = append(filter.Metadata, session.Label{Name: name, Value: value})
	}
	sortBy := valueOr(p.SortBy, workerapi.StartedAt)
	found := s.Sessions.List(filter, pageapi.Request(p.Page, p.Limit, string(sortBy), p.SortOrder))
	items := []workerapi.BrowserSession{}
	for _, item := range found.Items {
		data, err := s.sessionToAPI(item)
		if err != nil {
			return nil, err
		}
		items = append(items, data)
	}
	return workerapi.ListBrowserSessions200JSONResponse{Success: true, Data: workerapi.BrowserSessionList{
		Items: items, Pagination: pageapi.Pagination(found),
	}}, nil
}

// GetBrowserSession returns a session.
func (s *Server) GetBrowserSession(_ context.Context, r workerapi.GetBrowserSessionRequestObject) (workerapi.GetBrowserSessionResponseObject, error) {
	found, ok := s.Sessions.Get(r.SessionId)
	if !ok {
		return nil, fault.Missing("session")
	}
	data, err := s.sessionToAPI(found)
	if err != nil {
		return nil, err
	}
	return workerapi.GetBrowserSession200JSONResponse{Success: true, Data: data}, nil
}

// UpdateBrowserSession changes a running session.
func (s *Server) UpdateBrowserSession(_ context.Context, r workerapi.UpdateBrowserSessionRequestObject) (workerapi.UpdateBrowserSessionResponseObject, error) {
	update := launch.Update{
		Limits: launch.NewLimitChanges(r.Body.IdleTimeoutSeconds, r.Body.MaxDurationSeconds, r.Body.ConnectTimeoutSeconds),
		Name:   r.Body.Name, Metadata: valueOr(r.Body.Metadata, nil),
	}
	updated, err := s.Launches.Update(r.SessionId, update)
	if err != nil {
		return nil, err
	}
	data, err := s.sessionToAPI(updated)
	if err != nil {
		return nil, err
	}
	return workerapi.UpdateBrowserSession200JSONResponse{Success: true, Data: data}, nil
}

// KillBrowserSession ends a session.
func (s *Server) KillBrowserSession(ctx context.Context, r workerapi.KillBrowserSessionRequestObject) (workerapi.KillBrowserSessionResponseObject, error) {
	ended, err := s.Launches.Kill(ctx, r.SessionId)
	if err != nil {
		return nil, err
	}
	data, err := s.sessionToAPI(ended)
	if err != nil {
		return nil, err
	}
	return workerapi.KillBrowserSession200JSONResponse{Success: true, Data: data}, nil
}
