package main

import (
	"context"
	"crypto/rand"
	"strings"

	"github.com/browser-svc/svc/gen/cloudapi"
)

// secretSetups are the setups of secrets.
func (p *exampleRunner) secretSetups() map[string]func(context.Context) (exampleSetup, error) {
	return map[string]func(context.Context) (exampleSetup, error){
		"createSecret": func(context.Context) (exampleSetup, error) {
			return exampleSetup{body: map[string]any{"name": newSecretName()}}, nil
		},
		"getSecret":    p.secretSetup,
		"updateSecret": p.secretSetup,
		"deleteSecret": p.secretSetup,
		"fillSecret":   p.fillSetup,
		"useSecret": func(ctx context.Context) (exampleSetup, error) {
			s, err := p.secretSetup(ctx)
			if err != nil {
				return s, err
			}
			running, err := p.newSession(ctx, p.seed.tenant, p.seed.BrowserVersion)
			s.body = map[string]any{"sessionId": running.SessionId}
			return s, err
		},
	}
}

func newSecretName() string { return strings.ToLower(rand.Text()) }

// secretSetup creates a secret of the seeded organization.
func (p *exampleRunner) secretSetup(ctx context.Context) (exampleSetup, error) {
	if err := p.activateSeeded(ctx); err != nil {
		return exampleSetup{}, err
	}
	created, err := requireSuccess(p.seed.Owner.api.CreateSecretWithResponse(ctx, cloudapi.CreateSecretRequest{
		Name: newSecretName(), Origins: []string{"https://accounts.example.com"}, TotpSeed: new("JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"),
	}))
	if err != nil {
		return exampleSetup{}, err
	}
	return exampleSetup{path: map[string]string{"secretId": created.JSON201.Data.Id.String()}}, nil
}
