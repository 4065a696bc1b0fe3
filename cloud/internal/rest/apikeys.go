package rest

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/apikey"
	"github.com/browser-svc/svc/cloud/internal/auth"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/pageapi"
)

// APIKeys serves the API keys operations.
type APIKeys struct {
	Keys keys
}

type keys interface {
	Create(ctx context.Context, orgID, userID uuid.UUID, n apikey.NewKey) (k apikey.Key, secret string, err error)
	List(ctx context.Context, orgID uuid.UUID, r page.Request) (page.Page[apikey.Key], error)
	Revoke(ctx context.Context, orgID, keyID uuid.UUID) error
}

// ListApiKeys implements the operation listApiKeys.
func (a APIKeys) ListApiKeys(ctx context.Context, r cloudapi.ListApiKeysRequestObject) (cloudapi.ListApiKeysResponseObject, error) {
	sortBy := valueOr(r.Params.SortBy, cloudapi.ApiKeySortFieldCreatedAt)
	found, err := a.Keys.List(ctx, auth.CallerFrom(ctx).OrgID,
		pageapi.Request(r.Params.Page, r.Params.Limit, string(sortBy), r.Params.SortOrder))
	if err != nil {
		return nil, err
	}
	list := cloudapi.ApiKeyList{Items: []cloudapi.ApiKey{}, Pagination: pageapi.Pagination(found)}
	for _, item := range found.Items {
		list.Items = append(list.Items, apiKey(item))
	}
	return cloudapi.ListApiKeys200JSONResponse{Success: true, Data: list}, nil
}

// CreateApiKey implements the operation createApiKey.
func (a APIKeys) CreateApiKey(ctx context.Context, r cloudapi.CreateApiKeyRequestObject) (cloudapi.CreateApiKeyResponseObject, error) {
	caller := auth.CallerFrom(ctx)
	created, secret, err := a.Keys.Create(ctx, caller.OrgID, caller.UserID,
		apikey.NewKey{Name: r.Body.Name, ExpiresAt: r.Body.ExpiresAt})
	if err != nil {
		return nil, err
	}
	location := fmt.Sprintf("/v1/organizations/%s/api-keys/%s", caller.OrgID, created.ID)
	return cloudapi.CreateApiKey201JSONResponse{
		Body: cloudapi.CreatedApiKeyResponse{
			Success: true, Data: cloudapi.CreatedApiKey{Key: secret, ApiKey: apiKey(created)},
		},
		Headers: cloudapi.CreateApiKey201ResponseHeaders{Location: location},
	}, nil
}

// RevokeApiKey implements the operation revokeApiKey.
func (a APIKeys) RevokeApiKey(ctx context.Context, r cloudapi.RevokeApiKeyRequestObject) (cloudapi.RevokeApiKeyResponseObject, error) {
	if err := a.Keys.Revoke(ctx, auth.CallerFrom(ctx).OrgID, r.KeyId); err != nil {
		return nil, err
	}
	return cloudapi.RevokeApiKey200JSONResponse{Success: true, Data: cloudapi.Empty{}}, nil
}

func apiKey(k apikey.Key) cloudapi.ApiKey {
	return cloudapi.ApiKey{
		Id: k.ID, Name: k.Name, Prefix: k.Prefix, LastFour: k.LastFour, CreatedBy: nullable(k.CreatedBy.UUID),
		CreatedAt: k.CreatedAt, LastUsedAt: k.LastUsedAt, ExpiresAt: k.ExpiresAt,
	}
}
