package rest

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/tenancy/org"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/pageapi"
	"github.com/browser-svc/svc/shared/settings"
)

// Organizations serves the Organizations operations.
type Organizations struct {
	Organizations organizations
	Activation    activation
}

type organizations interface {
	Create(ctx context.Context, userID uuid.UUID, n org.NewOrganization) (org.Organization, error)
	List(ctx context.Context, userID uuid.UUID, r page.Request) (page.Page[org.Organization], error)
	Get(ctx context.Context, userID, orgID uuid.UUID) (org.Organization, error)
	Update(ctx context.Context, orgID, userID uuid.UUID, c org.Change) (org.Organization, error)
	Delete(ctx context.Context, orgID, userID uuid.UUID, slug string) error
	CheckNetwork(ctx context.Context, orgID uuid.UUID, c org.NetworkCheck) (netrules.Verdict, error)
}

// activation sets the active organization of a session.
type activation interface {
	Activate(ctx context.Context, token string, orgID uuid.UUID) error
}

// ListOrganizations implements the operation listOrganizations.
func (o Organizations) ListOrganizations(ctx context.Context, r cloudapi.ListOrganizationsRequestObject) (cloudapi.ListOrganizationsResponseObject, error) {
	caller := auth.CallerFrom(ctx)
	sortBy := valueOr(r.Params.SortBy, cloudapi.OrganizationSortFieldCreatedAt)
	found, err := o.Organizations.List(ctx, caller.UserID,
		pageapi.Request(r.Params.Page, r.Params.Limit, string(sortBy), r.Params.SortOrder))
	if err != nil {
		return nil, err
	}
	list := cloudapi.OrganizationList{Items: []cloudapi.Organization{}, Pagination: pageapi.Pagination(found)}
	for _, item := range found.Items {
		answer, err := organization(item, item.ID == caller.ActiveOrgID)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, answer)
	}
	return cloudapi.ListOrganizations200JSONResponse{Success: true, Data: list}, nil
}

// CreateOrganization implements the operation createOrganization.
func (o Organizations) CreateOrganization(ctx context.Context, r cloudapi.CreateOrganizationRequestObject) (cloudapi.CreateOrganizationResponseObject, error) {
	caller := auth.CallerFrom(ctx)
	created, err := o.Organizations.Create(ctx, caller.UserID,
		org.NewOrganization{Name: r.Body.Name, Slug: valueOr(r.Body.Slug, "")})
	if err != nil {
		return nil, err
	}
	if err := o.Activation.Activate(ctx, caller.Session, created.ID); err != nil {
		return nil, err
	}
	answer, err := organization(created, true)
	return cloudapi.CreateOrganization201JSONResponse{
		Body:    cloudapi.OrganizationResponse{Success: true, Data: answer},
		Headers: cloudapi.CreateOrganization201ResponseHeaders{Location: "/v1/organizations/" + created.ID.String()},
	}, err
}

// GetOrganization implements the operation getOrganization.
func (o Organizations) GetOrganization(ctx context.Context, _ cloudapi.GetOrganizationRequestObject) (cloudapi.GetOrganizationResponseObject, error) {
	caller := auth.CallerFrom(ctx)
	found, err := o.Organizations.Get(ctx, caller.UserID, caller.OrgID)
	if err != nil {
		return nil, err
	}
	answer, err := organization(found, found.ID == caller.ActiveOrgID)
	return cloudapi.GetOrganization200JSONResponse{Success: true, Data: answer}, err
}

// UpdateOrganization implements the operation updateOrganization.
func (o Organizations) UpdateOrganization(ctx context.Context, r cloudapi.UpdateOrganizationRequestObject) (cloudapi.UpdateOrganizationResponseObject, error) {
	caller := auth.CallerFrom(ctx)
	change := org.Change{Name: r.Body.Name, Slug: r.Body.Slug}
	if network := r.Body.Network; network != nil {
		if err := json.Unmarshal(network, &change.Network); err != nil {
			return nil, fmt.Errorf("read the network rules: %w", err)
		}
		change.ClearNetwork = change.Network == nil
	}
	changed, err := o.Organizations.Update(ctx, caller.OrgID, caller.UserID, change)
	if err != nil {
		return nil, err
	}
	answer, err := organization(changed, changed.ID == caller.ActiveOrgID)
	return cloudapi.UpdateOrganization200JSONResponse{Success: true, Data: answer}, err
}

// DeleteOrganization implements the operation deleteOrganization.
func (o Organizations) DeleteOrganization(ctx context.Context, r cloudapi.DeleteOrganizationRequestObject) (cloudapi.DeleteOrganizationResponseObject, error) {
	caller := auth.CallerFrom(ctx)
	if err := o.Organizations.Delete(ctx, caller.OrgID, caller.UserID, r.Params.ConfirmSlug); err != nil {
		return nil, err
	}
	return cloudapi.DeleteOrganization200JSONResponse{Success: true, Data: cloudapi.Empty{}}, nil
}

// ActivateOrganization implements the operation activateOrganization.
func (o Organizations) ActivateOrganization(ctx context.Context, _ cloudapi.ActivateOrganizationRequestObject) (cloudapi.ActivateOrganizationResponseObject, error) {
	caller := auth.CallerFrom(ctx)
	found, err := o.Organizations.Get(ctx, caller.UserID, caller.OrgID)
	if err != nil {
		return nil, err
	}
	if err := o.Activation.Activate(ctx, caller.Session, found.ID); err != nil {
		return nil, err
	}
	answer, err := organization(found, true)
	return cloudapi.ActivateOrganization200JSONResponse{Success: true, Data: answer}, err
}

func organization(o org.Organization, active bool) (cloudapi.Organization, error) {
	network, err := settings.Convert[*sharedapi.StoredNetworkRules](o.Network)
	return cloudapi.Organization{
		Id: o.ID, Name: o.Name, Slug: o.Slug, Role: cloudapi.Role(o.Role), Active: active, Network: network, CreatedAt: o.CreatedAt,
	}, err
}
