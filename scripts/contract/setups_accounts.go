package main

import (
	"context"
	"crypto/rand"

	"github.com/browser-svc/svc/gen/cloudapi"
)

// serviceAccountSetups are the setups of service accounts of the seeded organization.
func (p *exampleRunner) serviceAccountSetups() map[string]func(context.Context) (exampleSetup, error) {
	return map[string]func(context.Context) (exampleSetup, error){
		"createServiceAccount": func(context.Context) (exampleSetup, error) {
			return exampleSetup{body: map[string]any{"name": rand.Text()}}, nil
		},
		"getServiceAccount":         p.serviceAccountSetup,
		"updateServiceAccount":      p.serviceAccountSetup,
		"deleteServiceAccount":      p.serviceAccountSetup,
		"listServiceAccountTokens":  p.serviceAccountSetup,
		"createServiceAccountToken": p.serviceAccountSetup,
		"revokeServiceAccountToken": p.serviceAccountSetup,
	}
}

// serviceAccountSetup creates a service account of the seeded organization, with a token.
func (p *exampleRunner) serviceAccountSetup(ctx context.Context) (exampleSetup, error) {
	if err := p.activateSeeded(ctx); err != nil {
		return exampleSetup{}, err
	}
	owner, scopes := p.seed.Owner.api, cloudapi.AccessTokenScopes{cloudapi.ProfilesRead, cloudapi.ProfilesWrite}
	account, err := requireSuccess(owner.CreateServiceAccountWithResponse(ctx, p.seed.OrganizationID,
		cloudapi.CreateServiceAccountRequest{Name: rand.Text(), Scopes: scopes}))
	if err != nil {
		return exampleSetup{}, err
	}
	id := account.JSON201.Data.Id
	token, err := requireSuccess(owner.CreateServiceAccountTokenWithResponse(ctx, p.seed.OrganizationID, id,
		cloudapi.CreateAccessTokenRequest{Name: "production", Scopes: scopes}))
	if err != nil {
		return exampleSetup{}, err
	}
	return exampleSetup{path: map[string]string{
		"serviceAccountId": id.String(), "tokenId": token.JSON201.Data.AccessToken.Id.String(),
	}}, nil
}
