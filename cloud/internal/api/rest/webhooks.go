package rest

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/tenancy/webhook"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/pageapi"
)

// Webhooks serves the operations of the tag Webhooks.
type Webhooks struct {
	Webhooks   webhooks
	CheckAgain func(c echo.Context) error // checks the caller of a request again
}

type webhooks interface {
	Create(ctx context.Context, orgID uuid.UUID, f webhook.Fields) (webhook.Endpoint, string, error)
	Get(ctx context.Context, orgID, id uuid.UUID) (webhook.Endpoint, error)
	List(ctx context.Context, orgID uuid.UUID, r page.Request) (page.Page[webhook.Endpoint], error)
	Update(ctx context.Context, orgID, id uuid.UUID, patch json.RawMessage) (webhook.Endpoint, error)
	RotateSecret(ctx context.Context, orgID, id uuid.UUID) (webhook.Endpoint, string, error)
	Delete(ctx context.Context, orgID, id uuid.UUID) error
	SendTest(ctx context.Context, orgID, endpointID uuid.UUID) (webhook.Delivery, error)
	Deliveries(ctx context.Context, orgID, endpointID uuid.UUID, state *webhook.State, r page.Request) (page.Page[webhook.Delivery], error)
	Resend(ctx context.Context, orgID, endpointID, id uuid.UUID) (webhook.Delivery, error)
	OpenStream(ctx context.Context, orgID uuid.UUID, after *uuid.UUID) (*webhook.Stream, error)
}

// ListWebhookEndpoints implements the operation listWebhookEndpoints.
func (h Webhooks) ListWebhookEndpoints(ctx context.Context, r cloudapi.ListWebhookEndpointsRequestObject) (cloudapi.ListWebhookEndpointsResponseObject, error) {
	sortBy := valueOr(r.Params.SortBy, cloudapi.WebhookEndpointSortFieldCreatedAt)
	found, err := h.Webhooks.List(ctx, auth.CallerFrom(ctx).OrgID,
		pageapi.Request(r.Params.Page, r.Params.Limit, string(sortBy), r.Params.SortOrder))
	if err != nil {
		return nil, err
	}
	list := cloudapi.WebhookEndpointList{Items: []cloudapi.WebhookEndpoint{}, Pagination: pageapi.Pagination(found)}
	for _, item := range found.Items {
		list.Items = append(list.Items, endpointToAPI(item))
	}
	return cloudapi.ListWebhookEndpoints200JSONResponse{Success: true, Data: list}, nil
}

// CreateWebhookEndpoint implements the operation createWebhookEndpoint.
func (h Webhooks) CreateWebhookEndpoint(ctx context.Context, r cloudapi.CreateWebhookEndpointRequestObject) (cloudapi.CreateWebhookEndpointResponseObject, error) {
	fields := webhook.Fields{URL: r.Body.Url, Description: r.Body.Description, Enabled: true}
	if r.Body.Types != nil {
		fields.Types = new([]string{})
		for _, each := range *r.Body.Types {
			*fields.Types = append(*fields.Types, string(each))
		}
	}
	created, secret, err := h.Webhooks.Create(ctx, auth.CallerFrom(ctx).OrgID, fields)
	if err != nil {
		return nil, err
	}
	return cloudapi.CreateWebhookEndpoint201JSONResponse{
		Body:    cloudapi.CreatedWebhookEndpointResponse{Success: true, Data: cloudapi.CreatedWebhookEndpoint{Secret: secret, Endpoint: endpointToAPI(created)}},
		Headers: cloudapi.CreateWebhookEndpoint201ResponseHeaders{Location: "/v1/webhooks/endpoints/" + created.ID.String()},
	}, nil
}

// GetWebhookEndpoint implements the operation getWebhookEndpoint.
func (h Webhooks) GetWebhookEndpoint(ctx context.Context, r cloudapi.GetWebhookEndpointRequestObject) (cloudapi.GetWebhookEndpointResponseObject, error) {
	found, err := h.Webhooks.Get(ctx, auth.CallerFrom(ctx).OrgID, r.EndpointId)
	if err != nil {
		return nil, err
	}
	return cloudapi.GetWebhookEndpoint200JSONResponse{Success: true, Data: endpointToAPI(found)}, nil
}

// UpdateWebhookEndpoint implements the operation updateWebhookEndpoint.
func (h Webhooks) UpdateWebhookEndpoint(ctx context.Context, r cloudapi.UpdateWebhookEndpointRequestObject) (cloudapi.UpdateWebhookEndpointResponseObject, error) {
	updated, err := h.Webhooks.Update(ctx, auth.CallerFrom(ctx).OrgID, r.EndpointId, *r.Body)
	if err != nil {
		return nil, err
	}
	return cloudapi.UpdateWebhookEndpoint200JSONResponse{Success: true, Data: endpointToAPI(updated)}, nil
}

// DeleteWebhookEndpoint implements the operation deleteWebhookEndpoint.
func (h Webhooks) DeleteWebhookEndpoint(ctx context.Context, r cloudapi.DeleteWebhookEndpointRequestObject) (cloudapi.DeleteWebhookEndpointResponseObject, error) {
	if err := h.Webhooks.Delete(ctx, auth.CallerFrom(ctx).OrgID, r.EndpointId); err != nil {
		return nil, err
	}
	return cloudapi.DeleteWebhookEndpoint200JSONResponse{Success: true, Data: cloudapi.Empty{}}, nil
}

// RotateWebhookSecret implements the operation rotateWebhookSecret.
func (h Webhooks) RotateWebhookSecret(ctx context.Context, r cloudapi.RotateWebhookSecretRequestObject) (cloudapi.RotateWebhookSecretResponseObject, error) {
	rotated, secret, err := h.Webhooks.RotateSecret(ctx, auth.CallerFrom(ctx).OrgID, r.EndpointId)
	if err != nil {
		return nil, err
	}
	return cloudapi.RotateWebhookSecret200JSONResponse{Success: true, Data: cloudapi.CreatedWebhookEndpoint{Secret: secret, Endpoint: endpointToAPI(rotated)}}, nil
}

// SendTestEvent implements the operation sendTestEvent.
func (h Webhooks) SendTestEvent(ctx context.Context, r cloudapi.SendTestEventRequestObject) (cloudapi.SendTestEventResponseObject, error) {
	queued, err := h.Webhooks.SendTest(ctx, auth.CallerFrom(ctx).OrgID, r.EndpointId)
	if err != nil {
		return nil, err
	}
	delivery, err := deliveryToAPI(queued)
	return cloudapi.SendTestEvent200JSONResponse{Success: true, Data: delivery}, err
}

// ListWebhookDeliveries implements the operation listWebhookDeliveries.
func (h Webhooks) ListWebhookDeliveries(ctx context.Context, r cloudapi.ListWebhookDeliveriesRequestObject) (cloudapi.ListWebhookDeliveriesResponseObject, error) {
	sortBy := valueOr(r.Params.SortBy, cloudapi.WebhookDeliverySortFieldCreatedAt)
	found, err := h.Webhooks.Deliveries(ctx, auth.CallerFrom(ctx).OrgID, r.EndpointId, (*webhook.State)(r.Params.State),
		pageapi.Request(r.Params.Page, r.Params.Limit, string(sortBy), r.Params.SortOrder))
	if err != nil {
		return nil, err
	}
	list := cloudapi.WebhookDeliveryList{Items: []cloudapi.WebhookDelivery{}, Pagination: pageapi.Pagination(found)}
	for _, item := range found.Items {
		delivery, err := deliveryToAPI(item)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, delivery)
	}
	return cloudapi.ListWebhookDeliveries200JSONResponse{Success: true, Data: list}, nil
}

// SendWebhookDelivery implements the operation sendWebhookDelivery.
func (h Webhooks) SendWebhookDelivery(ctx context.Context, r cloudapi.SendWebhookDeliveryRequestObject) (cloudapi.SendWebhookDeliveryResponseObject, error) {
	queued, err := h.Webhooks.Resend(ctx, auth.CallerFrom(ctx).OrgID, r.EndpointId, r.DeliveryId)
	if err != nil {
		return nil, err
	}
	delivery, err := deliveryToAPI(queued)
	return cloudapi.SendWebhookDelivery200JSONResponse{Success: true, Data: delivery}, err
}

func endpointToAPI(e webhook.Endpoint) cloudapi.WebhookEndpoint {
	converted := cloudapi.WebhookEndpoint{
		Id: e.ID, Url: e.URL, Description: e.Description, Enabled: e.Enabled, DisabledReason: e.DisabledReason,
		FailingSince: e.FailingSince, OldSecretUntil: e.OldSecretUntil, CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt,
	}
	if e.Types != nil {
		types := cloudapi.WebhookEventTypes{}
		for _, each := range *e.Types {
			types = append(types, cloudapi.WebhookEventType(each))
		}
		converted.Types = &types
	}
	return converted
}

func deliveryToAPI(d webhook.Delivery) (cloudapi.WebhookDelivery, error) {
	converted := cloudapi.WebhookDelivery{
		Id: d.ID, EventId: d.EventID, Type: d.Type, State: cloudapi.WebhookDeliveryStatus(d.State), Attempts: d.Attempts,
		LastAttemptAt: d.LastAttemptAt, ResponseStatus: d.LastStatus, DurationMs: d.DurationMS, Error: d.LastError, NextAttemptAt: d.NextAttemptAt,
		CreatedAt: d.CreatedAt,
	}
	if d.Data == nil {
		return converted, nil
	}
	if err := json.Unmarshal(d.Data, &converted.Data); err != nil {
		return converted, fmt.Errorf("read the data of event %s: %w", d.EventID, err)
	}
	return converted, nil
}
