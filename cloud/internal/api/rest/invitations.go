package rest

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/tenancy/org"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/pageapi"
)

// Invitations serves the operations on invitations.
type Invitations struct {
	Invitations invitations
}

type invitations interface {
	Invite(ctx context.Context, orgID, actorID uuid.UUID, n org.NewInvitation) (org.Invitation, error)
	Invitations(ctx context.Context, orgID uuid.UUID, r page.Request) (page.Page[org.Invitation], error)
	RevokeInvitation(ctx context.Context, orgID, actorID, id uuid.UUID) error
	Accept(ctx context.Context, userID uuid.UUID, token string) (org.Organization, error)
}

// InviteMember implements the operation inviteMember.
func (i Invitations) InviteMember(ctx context.Context, r cloudapi.InviteMemberRequestObject) (cloudapi.InviteMemberResponseObject, error) {
	caller := auth.CallerFrom(ctx)
	created, err := i.Invitations.Invite(ctx, caller.OrgID, caller.UserID,
		org.NewInvitation{Email: string(r.Body.Email), Role: org.Role(r.Body.Role)})
	if err != nil {
		return nil, err
	}
	location := fmt.Sprintf("/v1/organizations/%s/invitations/%s", caller.OrgID, created.ID)
	return cloudapi.InviteMember201JSONResponse{
		Body:    cloudapi.InvitationResponse{Success: true, Data: invitation(created)},
		Headers: cloudapi.InviteMember201ResponseHeaders{Location: location},
	}, nil
}

// ListInvitations implements the operation listInvitations.
func (i Invitations) ListInvitations(ctx context.Context, r cloudapi.ListInvitationsRequestObject) (cloudapi.ListInvitationsResponseObject, error) {
	sortBy := valueOr(r.Params.SortBy, cloudapi.InvitationSortFieldCreatedAt)
	found, err := i.Invitations.Invitations(ctx, auth.CallerFrom(ctx).OrgID,
		pageapi.Request(r.Params.Page, r.Params.Limit, string(sortBy), r.Params.SortOrder))
	if err != nil {
		return nil, err
	}
	list := cloudapi.InvitationList{Items: []cloudapi.Invitation{}, Pagination: pageapi.Pagination(found)}
	for _, item := range found.Items {
		list.Items = append(list.Items, invitation(item))
	}
	return cloudapi.ListInvitations200JSONResponse{Success: true, Data: list}, nil
}

// RevokeInvitation implements the operation revokeInvitation.
func (i Invitations) RevokeInvitation(ctx context.Context, r cloudapi.RevokeInvitationRequestObject) (cloudapi.RevokeInvitationResponseObject, error) {
	caller := auth.CallerFrom(ctx)
	if err := i.Invitations.RevokeInvitation(ctx, caller.OrgID, caller.UserID, r.InvitationId); err != nil {
		return nil, err
	}
	return cloudapi.RevokeInvitation200JSONResponse{Success: true, Data: cloudapi.Empty{}}, nil
}

// AcceptInvitation implements the operation acceptInvitation.
func (i Invitations) AcceptInvitation(ctx context.Context, r cloudapi.AcceptInvitationRequestObject) (cloudapi.AcceptInvitationResponseObject, error) {
	caller := auth.CallerFrom(ctx)
	joined, err := i.Invitations.Accept(ctx, caller.UserID, valueOr(r.Body.Token, ""))
	if err != nil {
		return nil, err
	}
	answer, err := organization(joined, joined.ID == caller.ActiveOrgID)
	return cloudapi.AcceptInvitation200JSONResponse{Success: true, Data: answer}, err
}

func invitation(i org.Invitation) cloudapi.Invitation {
	result := cloudapi.Invitation{
		Id: i.ID, Email: cloudapi.Email(i.Email), Role: cloudapi.Role(i.Role), InvitedBy: uuidOrNil(i.InvitedBy.UUID),
		CreatedAt: i.CreatedAt, ExpiresAt: i.ExpiresAt,
	}
	if i.AcceptURL != "" {
		result.AcceptUrl = &i.AcceptURL
	}
	return result
}
