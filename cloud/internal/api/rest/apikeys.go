package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/tenancy/apikey"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/pageapi"
)

// APIKeys serves the API keys operations.
type APIKeys struct {
	Keys    keys
	Connect apikey.Connector
}

type keys interface {
	Create(ctx context.Context, orgID, userID uuid.UUID, n apikey.NewKey) (k apikey.Key, secret string, err error)
	List(ctx context.Context, orgID uuid.UUID, r page.Request) (page.Page[apikey.Key], error)
	Update(ctx context.Context, orgID, keyID uuid.UUID, c apikey.Change) (apikey.Key, error)
	Rotate(ctx context.Context, orgID, userID, keyID uuid.UUID, expireOld *time.Duration) (k apikey.Key, secret string, err error)
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
		apikey.NewKey{Name: r.Body.Name, ExpiresAt: utcTime(r.Body.ExpiresAt)})
	if err != nil {
		return nil, err
	}
	return cloudapi.CreateApiKey201JSONResponse{
		Body:    cloudapi.CreatedApiKeyResponse{Success: true, Data: a.created(created, secret)},
		Headers: cloudapi.CreateApiKey201ResponseHeaders{Location: keyPath(caller.OrgID, created.ID)},
	}, nil
}

// UpdateApiKey implements the operation updateApiKey.
func (a APIKeys) UpdateApiKey(ctx context.Context, r cloudapi.UpdateApiKeyRequestObject) (cloudapi.UpdateApiKeyResponseObject, error) {
	change := apikey.Change{Name: r.Body.Name}
	if expiry := r.Body.ExpiresAt; expiry != nil {
		if err := json.Unmarshal(expiry, &change.ExpiresAt); err != nil {
			return nil, fmt.Errorf("read expiresAt: %w", err)
		}
		change.ExpiresAt = utcTime(change.ExpiresAt)
		change.NeverExpires = change.ExpiresAt == nil
	}
	changed, err := a.Keys.Update(ctx, auth.CallerFrom(ctx).OrgID, r.KeyId, change)
	if err != nil {
		return nil, err
	}
	return cloudapi.UpdateApiKey200JSONResponse{Success: true, Data: apiKey(changed)}, nil
}

// RotateApiKey implements the operation rotateApiKey.
func (a APIKeys) RotateApiKey(ctx context.Context, r cloudapi.RotateApiKeyRequestObject) (cloudapi.RotateApiKeyResponseObject, error) {
	caller := auth.CallerFrom(ctx)
	var expireOld *time.Duration
	if r.Body != nil && r.Body.ExpireOldAfterSeconds != nil {
		expireOld = new(time.Duration(*r.Body.ExpireOldAfterSeconds) * time.Second)
	}
	created, secret, err := a.Keys.Rotate(ctx, caller.OrgID, caller.UserID, r.KeyId, expireOld)
	if err != nil {
		return nil, err
	}
	return cloudapi.RotateApiKey201JSONResponse{
		Body:    cloudapi.CreatedApiKeyResponse{Success: true, Data: a.created(created, secret)},
		Headers: cloudapi.RotateApiKey201ResponseHeaders{Location: keyPath(caller.OrgID, created.ID)},
	}, nil
}

// RevokeApiKey implements the operation revokeApiKey.
func (a APIKeys) RevokeApiKey(ctx context.Context, r cloudapi.RevokeApiKeyRequestObject) (cloudapi.RevokeApiKeyResponseObject, error) {
	if err := a.Keys.Revoke(ctx, auth.CallerFrom(ctx).OrgID, r.KeyId); err != nil {
		return nil, err
	}
	return cloudapi.RevokeApiKey200JSONResponse{Success: true, Data: cloudapi.Empty{}}, nil
}

// GetConnectGuide implements the operation getConnectGuide.
func (a APIKeys) GetConnectGuide(context.Context, cloudapi.GetConnectGuideRequestObject) (cloudapi.GetConnectGuideResponseObject, error) {
	guide := a.Connect.Guide()
	return cloudapi.GetConnectGuide200JSONResponse{Success: true, Data: cloudapi.ConnectGuide{
		CloudUrl: guide.CloudURL, KeyPlaceholder: apikey.Placeholder, KeyLowerPlaceholder: apikey.PlaceholderLower,
		Image: nonEmpty(guide.Image), DockerCommand: nonEmpty(guide.Docker), ComposeFile: nonEmpty(guide.Compose),
		KubernetesManifest: nonEmpty(guide.Kubernetes), BinaryCommand: guide.Binary, SourceCommand: guide.Source,
	}}, nil
}

// created returns the only answer that contains the key itself.
func (a APIKeys) created(k apikey.Key, secret string) cloudapi.CreatedApiKey {
	return cloudapi.CreatedApiKey{
		Key: secret, KeyLower: strings.ToLower(secret), Image: nonEmpty(a.Connect.Image(secret)), ApiKey: apiKey(k),
	}
}

func keyPath(orgID, keyID uuid.UUID) string {
	return fmt.Sprintf("/v1/organizations/%s/api-keys/%s", orgID, keyID)
}

// nonEmpty returns a pointer to the text, or nil if it is empty.
func nonEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func apiKey(k apikey.Key) cloudapi.ApiKey {
	return cloudapi.ApiKey{
		Id: k.ID, Name: k.Name, Prefix: k.Prefix, LastFour: k.LastFour, CreatedBy: uuidOrNil(k.CreatedBy.UUID),
		CreatedAt: k.CreatedAt, LastUsedAt: k.LastUsedAt, ExpiresAt: k.ExpiresAt,
	}
}
