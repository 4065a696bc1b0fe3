package rest

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/tenancy/vault"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/pageapi"
)

// Secrets serves the secrets operations, and useSecret for workers.
type Secrets struct {
	Secrets secrets
}

type secrets interface {
	Create(ctx context.Context, orgID uuid.UUID, d vault.Draft) (vault.Secret, error)
	Get(ctx context.Context, orgID, id uuid.UUID) (vault.Secret, error)
	List(ctx context.Context, orgID uuid.UUID, r page.Request) (page.Page[vault.Secret], error)
	Update(ctx context.Context, orgID, id uuid.UUID, patch json.RawMessage) (vault.Secret, error)
	Delete(ctx context.Context, orgID, id uuid.UUID) error
	Use(ctx context.Context, orgID uuid.UUID, u vault.Use) (vault.Value, error)
}

// ListSecrets implements the operation listSecrets.
func (h Secrets) ListSecrets(ctx context.Context, r cloudapi.ListSecretsRequestObject) (cloudapi.ListSecretsResponseObject, error) {
	sortBy := valueOr(r.Params.SortBy, cloudapi.SecretSortFieldCreatedAt)
	found, err := h.Secrets.List(ctx, auth.CallerFrom(ctx).OrgID,
		pageapi.Request(r.Params.Page, r.Params.Limit, string(sortBy), r.Params.SortOrder))
	if err != nil {
		return nil, err
	}
	list := cloudapi.SecretList{Items: []cloudapi.Secret{}, Pagination: pageapi.Pagination(found)}
	for _, item := range found.Items {
		list.Items = append(list.Items, secretToAPI(item))
	}
	return cloudapi.ListSecrets200JSONResponse{Success: true, Data: list}, nil
}

// CreateSecret implements the operation createSecret.
func (h Secrets) CreateSecret(ctx context.Context, r cloudapi.CreateSecretRequestObject) (cloudapi.CreateSecretResponseObject, error) {
	b := r.Body
	created, err := h.Secrets.Create(ctx, auth.CallerFrom(ctx).OrgID, vault.Draft{
		Fields:   vault.Fields{Name: b.Name, Username: b.Username, Origins: b.Origins, ProfileIDs: b.ProfileIds},
		Password: b.Password, TOTPSeed: b.TotpSeed,
	})
	if err != nil {
		return nil, err
	}
	return cloudapi.CreateSecret201JSONResponse{
		Body:    cloudapi.SecretResponse{Success: true, Data: secretToAPI(created)},
		Headers: cloudapi.CreateSecret201ResponseHeaders{Location: "/v1/secrets/" + created.ID.String()},
	}, nil
}

// GetSecret implements the operation getSecret.
func (h Secrets) GetSecret(ctx context.Context, r cloudapi.GetSecretRequestObject) (cloudapi.GetSecretResponseObject, error) {
	found, err := h.Secrets.Get(ctx, auth.CallerFrom(ctx).OrgID, r.SecretId)
	if err != nil {
		return nil, err
	}
	return cloudapi.GetSecret200JSONResponse{Success: true, Data: secretToAPI(found)}, nil
}

// UpdateSecret implements the operation updateSecret.
func (h Secrets) UpdateSecret(ctx context.Context, r cloudapi.UpdateSecretRequestObject) (cloudapi.UpdateSecretResponseObject, error) {
	updated, err := h.Secrets.Update(ctx, auth.CallerFrom(ctx).OrgID, r.SecretId, *r.Body)
	if err != nil {
		return nil, err
	}
	return cloudapi.UpdateSecret200JSONResponse{Success: true, Data: secretToAPI(updated)}, nil
}

// DeleteSecret implements the operation deleteSecret.
func (h Secrets) DeleteSecret(ctx context.Context, r cloudapi.DeleteSecretRequestObject) (cloudapi.DeleteSecretResponseObject, error) {
	if err := h.Secrets.Delete(ctx, auth.CallerFrom(ctx).OrgID, r.SecretId); err != nil {
		return nil, err
	}
	return cloudapi.DeleteSecret200JSONResponse{Success: true, Data: cloudapi.Empty{}}, nil
}

// UseSecret implements the operation useSecret.
func (h Secrets) UseSecret(ctx context.Context, r cloudapi.UseSecretRequestObject) (cloudapi.UseSecretResponseObject, error) {
	value, err := h.Secrets.Use(ctx, auth.CallerFrom(ctx).OrgID, vault.Use{
		Secret: r.SecretId, SessionID: r.Body.SessionId, Field: vault.Field(r.Body.Field), Origin: r.Body.Origin,
	})
	if err != nil {
		return nil, err
	}
	return cloudapi.UseSecret200JSONResponse{Success: true, Data: cloudapi.UsedSecret{
		SecretId: value.SecretID, Field: r.Body.Field, Value: value.Text, ValidUntil: value.ValidUntil,
	}}, nil
}

func secretToAPI(s vault.Secret) cloudapi.Secret {
	return cloudapi.Secret{
		Id: s.ID, Name: s.Name, Username: s.Username, Origins: s.Origins, ProfileIds: s.ProfileIDs,
		HasPassword: s.HasPassword, HasTotp: s.HasTOTP, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, LastUsedAt: s.LastUsedAt,
	}
}
