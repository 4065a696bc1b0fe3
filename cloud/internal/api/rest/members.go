package rest

import (
	"context"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/tenancy/org"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/pageapi"
)

// Members serves the operations on the members of an organization.
type Members struct {
	Members members
}

type members interface {
	Members(ctx context.Context, orgID uuid.UUID, f org.MemberFilter, r page.Request) (page.Page[org.Membership], error)
	ChangeRole(ctx context.Context, orgID, actorID, memberID uuid.UUID, role org.Role) (org.Membership, error)
	Remove(ctx context.Context, orgID, actorID, memberID uuid.UUID) error
}

// ListMembers implements the operation listMembers.
func (m Members) ListMembers(ctx context.Context, r cloudapi.ListMembersRequestObject) (cloudapi.ListMembersResponseObject, error) {
	sortBy := valueOr(r.Params.SortBy, cloudapi.MemberSortFieldJoinedAt)
	filter := org.MemberFilter{Search: valueOr(r.Params.Search, ""), Role: org.Role(valueOr(r.Params.Role, ""))}
	found, err := m.Members.Members(ctx, auth.CallerFrom(ctx).OrgID, filter,
		pageapi.Request(r.Params.Page, r.Params.Limit, string(sortBy), r.Params.SortOrder))
	if err != nil {
		return nil, err
	}
	list := cloudapi.MemberList{Items: []cloudapi.Member{}, Pagination: pageapi.Pagination(found)}
	for _, item := range found.Items {
		list.Items = append(list.Items, member(item))
	}
	return cloudapi.ListMembers200JSONResponse{Success: true, Data: list}, nil
}

// UpdateMember implements the operation updateMember.
func (m Members) UpdateMember(ctx context.Context, r cloudapi.UpdateMemberRequestObject) (cloudapi.UpdateMemberResponseObject, error) {
	caller := auth.CallerFrom(ctx)
	changed, err := m.Members.ChangeRole(ctx, caller.OrgID, caller.UserID, r.MemberId, org.Role(r.Body.Role))
	if err != nil {
		return nil, err
	}
	return cloudapi.UpdateMember200JSONResponse{Success: true, Data: member(changed)}, nil
}

// DeleteMember implements the operation deleteMember.
func (m Members) DeleteMember(ctx context.Context, r cloudapi.DeleteMemberRequestObject) (cloudapi.DeleteMemberResponseObject, error) {
	caller := auth.CallerFrom(ctx)
	if err := m.Members.Remove(ctx, caller.OrgID, caller.UserID, r.MemberId); err != nil {
		return nil, err
	}
	return cloudapi.DeleteMember200JSONResponse{Success: true, Data: cloudapi.Empty{}}, nil
}

func member(m org.Membership) cloudapi.Member {
	return cloudapi.Member{Id: m.UserID, Email: cloudapi.Email(m.Email), Name: m.Name, Role: cloudapi.Role(m.Role), JoinedAt: m.JoinedAt}
}
