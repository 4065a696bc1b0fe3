package rest

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/pageapi"
)

// ServiceAccounts serves the Service accounts operations.
type ServiceAccounts struct {
	Accounts serviceAccounts
}

type serviceAccounts interface {
	CreateServiceAccount(ctx context.Context, caller auth.Caller, name string, scopes []string) (auth.ServiceAccount, error)
	ListServiceAccounts(ctx context.Context, orgID uuid.UUID, r page.Request) (page.Page[auth.ServiceAccount], error)
	ServiceAccount(ctx context.Context, orgID, id uuid.UUID) (auth.ServiceAccount, error)
	UpdateServiceAccount(ctx context.Context, orgID, id uuid.UUID, c auth.ServiceAccountChange) (auth.ServiceAccount, error)
	DeleteServiceAccount(ctx context.Context, orgID, id uuid.UUID) error
	CreateServiceAccountToken(ctx context.Context, caller auth.Caller, id uuid.UUID, n auth.NewAccessToken) (t auth.AccessToken, secret string, err error)
	ListServiceAccountTokens(ctx context.Context, orgID, id uuid.UUID, r page.Request) (page.Page[auth.AccessToken], error)
	RevokeServiceAccountToken(ctx context.Context, orgID, id, tokenID uuid.UUID) error
}

// ListServiceAccounts implements the operation listServiceAccounts.
func (s ServiceAccounts) ListServiceAccounts(ctx context.Context, r cloudapi.ListServiceAccountsRequestObject) (cloudapi.ListServiceAccountsResponseObject, error) {
	p := r.Params
	sortBy := valueOr(p.SortBy, cloudapi.ServiceAccountSortFieldCreatedAt)
	found, err := s.Accounts.ListServiceAccounts(ctx, auth.CallerFrom(ctx).OrgID, pageapi.Request(p.Page, p.Limit, string(sortBy), p.SortOrder))
	if err != nil {
		return nil, err
	}
	list := cloudapi.ServiceAccountList{Items: []cloudapi.ServiceAccount{}, Pagination: pageapi.Pagination(found)}
	for _, item := range found.Items {
		list.Items = append(list.Items, serviceAccount(item))
	}
	return cloudapi.ListServiceAccounts200JSONResponse{Success: true, Data: list}, nil
}

// CreateServiceAccount implements the operation createServiceAccount.
func (s ServiceAccounts) CreateServiceAccount(ctx context.Context, r cloudapi.CreateServiceAccountRequestObject) (cloudapi.CreateServiceAccountResponseObject, error) {
	created, err := s.Accounts.CreateServiceAccount(ctx, auth.CallerFrom(ctx), r.Body.Name, scopeNames(r.Body.Scopes))
	if err != nil {
		return nil, err
	}
	return cloudapi.CreateServiceAccount201JSONResponse{
		Body:    cloudapi.ServiceAccountResponse{Success: true, Data: serviceAccount(created)},
		Headers: cloudapi.CreateServiceAccount201ResponseHeaders{Location: serviceAccountPath(created.OrgID, created.ID)},
	}, nil
}

// GetServiceAccount implements the operation getServiceAccount.
func (s ServiceAccounts) GetServiceAccount(ctx context.Context, r cloudapi.GetServiceAccountRequestObject) (cloudapi.GetServiceAccountResponseObject, error) {
	found, err := s.Accounts.ServiceAccount(ctx, auth.CallerFrom(ctx).OrgID, r.ServiceAccountId)
	if err != nil {
		return nil, err
	}
	return cloudapi.GetServiceAccount200JSONResponse{Success: true, Data: serviceAccount(found)}, nil
}

// UpdateServiceAccount implements the operation updateServiceAccount.
func (s ServiceAccounts) UpdateServiceAccount(ctx context.Context, r cloudapi.UpdateServiceAccountRequestObject) (cloudapi.UpdateServiceAccountResponseObject, error) {
	change := auth.ServiceAccountChange{Name: r.Body.Name, Disabled: r.Body.Disabled}
	if r.Body.Scopes != nil {
		change.Scopes = scopeNames(*r.Body.Scopes)
	}
	changed, err := s.Accounts.UpdateServiceAccount(ctx, auth.CallerFrom(ctx).OrgID, r.ServiceAccountId, change)
	if err != nil {
		return nil, err
	}
	return cloudapi.UpdateServiceAccount200JSONResponse{Success: true, Data: serviceAccount(changed)}, nil
}

// DeleteServiceAccount implements the operation deleteServiceAccount.
func (s ServiceAccounts) DeleteServiceAccount(ctx context.Context, r cloudapi.DeleteServiceAccountRequestObject) (cloudapi.DeleteServiceAccountResponseObject, error) {
	if err := s.Accounts.DeleteServiceAccount(ctx, auth.CallerFrom(ctx).OrgID, r.ServiceAccountId); err != nil {
		return nil, err
	}
	return cloudapi.DeleteServiceAccount200JSONResponse{Success: true, Data: cloudapi.Empty{}}, nil
}

// ListServiceAccountTokens implements the operation listServiceAccountTokens.
func (s ServiceAccounts) ListServiceAccountTokens(ctx context.Context, r cloudapi.ListServiceAccountTokensRequestObject) (cloudapi.ListServiceAccountTokensResponseObject, error) {
	p := r.Params
	sortBy := valueOr(p.SortBy, cloudapi.AccessTokenSortFieldCreatedAt)
	found, err := s.Accounts.ListServiceAccountTokens(ctx, auth.CallerFrom(ctx).OrgID, r.ServiceAccountId,
		pageapi.Request(p.Page, p.Limit, string(sortBy), p.SortOrder))
	if err != nil {
		return nil, err
	}
	return cloudapi.ListServiceAccountTokens200JSONResponse{Success: true, Data: accessTokenList(found)}, nil
}

// CreateServiceAccountToken implements the operation createServiceAccountToken.
func (s ServiceAccounts) CreateServiceAccountToken(ctx context.Context, r cloudapi.CreateServiceAccountTokenRequestObject) (cloudapi.CreateServiceAccountTokenResponseObject, error) {
	created, secret, err := s.Accounts.CreateServiceAccountToken(ctx, auth.CallerFrom(ctx), r.ServiceAccountId, newAccessToken(*r.Body))
	if err != nil {
		return nil, err
	}
	return cloudapi.CreateServiceAccountToken201JSONResponse{
		Body: cloudapi.CreatedAccessTokenResponse{Success: true, Data: cloudapi.CreatedAccessToken{
			Token: secret, AccessToken: accessToken(created),
		}},
		Headers: cloudapi.CreateServiceAccountToken201ResponseHeaders{
			Location: serviceAccountPath(created.OrgID, created.ServiceAccountID) + "/tokens/" + created.ID.String(),
		},
	}, nil
}

// RevokeServiceAccountToken implements the operation revokeServiceAccountToken.
func (s ServiceAccounts) RevokeServiceAccountToken(ctx context.Context, r cloudapi.RevokeServiceAccountTokenRequestObject) (cloudapi.RevokeServiceAccountTokenResponseObject, error) {
	if err := s.Accounts.RevokeServiceAccountToken(ctx, auth.CallerFrom(ctx).OrgID, r.ServiceAccountId, r.TokenId); err != nil {
		return nil, err
	}
	return cloudapi.RevokeServiceAccountToken200JSONResponse{Success: true, Data: cloudapi.Empty{}}, nil
}

func serviceAccountPath(orgID, id uuid.UUID) string {
	return fmt.Sprintf("/v1/organizations/%s/service-accounts/%s", orgID, id)
}

func serviceAccount(a auth.ServiceAccount) cloudapi.ServiceAccount {
	return cloudapi.ServiceAccount{
		Id: a.ID, Name: a.Name, Scopes: accessTokenScopes(a.Scopes), Disabled: a.Disabled,
		CreatedBy: uuidOrNil(a.CreatedBy.UUID), CreatedAt: a.CreatedAt, LastUsedAt: a.LastUsedAt,
	}
}
