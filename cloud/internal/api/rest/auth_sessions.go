package rest

import (
	"context"
	"time"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/pageapi"
)

// ListAuthSessions implements the operation listAuthSessions.
func (a Auth) ListAuthSessions(ctx context.Context, r cloudapi.ListAuthSessionsRequestObject) (cloudapi.ListAuthSessionsResponseObject, error) {
	p := r.Params
	sortBy := valueOr(p.SortBy, cloudapi.DashboardSessionSortFieldCreatedAt)
	found, err := a.Accounts.ListSessions(ctx, auth.CallerFrom(ctx), pageapi.Request(p.Page, p.Limit, string(sortBy), p.SortOrder))
	if err != nil {
		return nil, err
	}
	list := cloudapi.DashboardSessionList{Items: []cloudapi.DashboardSession{}, Pagination: pageapi.Pagination(found)}
	for _, item := range found.Items {
		list.Items = append(list.Items, cloudapi.DashboardSession{
			Id: item.ID, CreatedAt: item.CreatedAt, LastSeenAt: item.LastSeenAt, ExpiresAt: item.ExpiresAt,
			IpAddress: item.IPAddress, UserAgent: item.UserAgent, Current: item.Current,
		})
	}
	return cloudapi.ListAuthSessions200JSONResponse{Success: true, Data: list}, nil
}

// EndAuthSession implements the operation endAuthSession.
func (a Auth) EndAuthSession(ctx context.Context, r cloudapi.EndAuthSessionRequestObject) (cloudapi.EndAuthSessionResponseObject, error) {
	if err := a.Accounts.EndSession(ctx, auth.CallerFrom(ctx).UserID, r.SessionId); err != nil {
		return nil, err
	}
	return cloudapi.EndAuthSession200JSONResponse{Success: true, Data: cloudapi.Empty{}}, nil
}

// SignOutEverywhere implements the operation signOutEverywhere.
func (a Auth) SignOutEverywhere(ctx context.Context, _ cloudapi.SignOutEverywhereRequestObject) (cloudapi.SignOutEverywhereResponseObject, error) {
	if err := a.Accounts.SignOutEverywhere(ctx, auth.CallerFrom(ctx).UserID); err != nil {
		return nil, err
	}
	return cloudapi.SignOutEverywhere200JSONResponse{
		Body:    cloudapi.EmptyResponse{Success: true, Data: cloudapi.Empty{}},
		Headers: cloudapi.SignOutEverywhere200ResponseHeaders{SetCookie: a.cookie("", time.Time{})},
	}, nil
}
