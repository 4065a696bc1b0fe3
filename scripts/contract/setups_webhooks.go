package main

import (
	"context"

	"github.com/browser-svc/svc/gen/cloudapi"
)

// webhookSetups are the setups of webhook endpoints.
func (p *exampleRunner) webhookSetups() map[string]func(context.Context) (exampleSetup, error) {
	return map[string]func(context.Context) (exampleSetup, error){
		"getWebhookEndpoint":    p.endpointSetup,
		"updateWebhookEndpoint": p.endpointSetup,
		"deleteWebhookEndpoint": p.endpointSetup,
		"rotateWebhookSecret":   p.endpointSetup,
		"sendTestEvent":         p.endpointSetup,
		"listWebhookDeliveries": p.endpointSetup,
		"sendWebhookDelivery": func(ctx context.Context) (exampleSetup, error) {
			s, id, err := p.newEndpoint(ctx)
			if err != nil {
				return s, err
			}
			queued, err := requireSuccess(p.seed.Owner.api.SendTestEventWithResponse(ctx, id, cloudapi.SendTestEventJSONRequestBody{}))
			if err != nil {
				return s, err
			}
			s.path["deliveryId"] = queued.JSON200.Data.Id.String()
			return s, nil
		},
	}
}

func (p *exampleRunner) endpointSetup(ctx context.Context) (exampleSetup, error) {
	s, _, err := p.newEndpoint(ctx)
	return s, err
}

// newEndpoint creates an endpoint of the seeded organization, which is deleted after the
// example.
func (p *exampleRunner) newEndpoint(ctx context.Context) (exampleSetup, cloudapi.WebhookEndpointId, error) {
	var id cloudapi.WebhookEndpointId
	if err := p.activateSeeded(ctx); err != nil {
		return exampleSetup{}, id, err
	}
	created, err := requireSuccess(p.seed.Owner.api.CreateWebhookEndpointWithResponse(ctx, cloudapi.CreateWebhookEndpointRequest{Url: "https://127.0.0.1:1/"}))
	if err != nil {
		return exampleSetup{}, id, err
	}
	id = created.JSON201.Data.Endpoint.Id
	return exampleSetup{path: map[string]string{"endpointId": id.String()}, after: func(ctx context.Context) error {
		_, err := p.seed.Owner.api.DeleteWebhookEndpointWithResponse(ctx, id) // the example may have deleted it
		return err
	}}, id, nil
}
