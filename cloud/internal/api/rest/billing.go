package rest

import (
	"context"
	"net/url"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/tenancy/billing"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/pageapi"
)

// Billing serves the Billing operations. All act on the active organization.
type Billing struct {
	Subscriptions subscriptions
	Public        *url.URL // where users return to by default
}

type subscriptions interface {
	Subscription(ctx context.Context, orgID uuid.UUID) (billing.Subscription, error)
	Invoices(ctx context.Context, orgID uuid.UUID, r page.Request) (page.Page[billing.Invoice], error)
	AddOns(ctx context.Context, orgID uuid.UUID) ([]billing.AvailableAddOn, error)
	Checkout(ctx context.Context, orgID uuid.UUID, plan, returnURL string) (billing.Subscription, string, error)
	ChangePlan(ctx context.Context, orgID uuid.UUID, plan string) (billing.Subscription, error)
	Cancel(ctx context.Context, orgID uuid.UUID) (billing.Subscription, error)
	Resume(ctx context.Context, orgID uuid.UUID) (billing.Subscription, error)
	AddAddOn(ctx context.Context, orgID uuid.UUID, slug string, quantity int) (billing.Subscription, error)
	RemoveAddOn(ctx context.Context, orgID, addOnID uuid.UUID) (billing.Subscription, error)
	Portal(ctx context.Context, orgID uuid.UUID, returnURL string) (string, error)
}

// GetSubscription implements the operation getSubscription.
func (b Billing) GetSubscription(ctx context.Context, _ cloudapi.GetSubscriptionRequestObject) (cloudapi.GetSubscriptionResponseObject, error) {
	found, err := b.Subscriptions.Subscription(ctx, auth.CallerFrom(ctx).OrgID)
	if err != nil {
		return nil, err
	}
	return cloudapi.GetSubscription200JSONResponse{Success: true, Data: subscription(found)}, nil
}

// ListInvoices implements the operation listInvoices.
func (b Billing) ListInvoices(ctx context.Context, r cloudapi.ListInvoicesRequestObject) (cloudapi.ListInvoicesResponseObject, error) {
	sortBy := valueOr(r.Params.SortBy, cloudapi.InvoiceSortFieldCreatedAt)
	found, err := b.Subscriptions.Invoices(ctx, auth.CallerFrom(ctx).OrgID,
		pageapi.Request(r.Params.Page, r.Params.Limit, string(sortBy), r.Params.SortOrder))
	if err != nil {
		return nil, err
	}
	list := cloudapi.InvoiceList{Items: []cloudapi.Invoice{}, Pagination: pageapi.Pagination(found)}
	for _, item := range found.Items {
		list.Items = append(list.Items, invoice(item))
	}
	return cloudapi.ListInvoices200JSONResponse{Success: true, Data: list}, nil
}

// ListAddOns implements the operation listAddOns.
func (b Billing) ListAddOns(ctx context.Context, _ cloudapi.ListAddOnsRequestObject) (cloudapi.ListAddOnsResponseObject, error) {
	offered, err := b.Subscriptions.AddOns(ctx, auth.CallerFrom(ctx).OrgID)
	if err != nil {
		return nil, err
	}
	list := cloudapi.AddOnList{Items: []cloudapi.AddOnOffer{}}
	for _, o := range offered {
		list.Items = append(list.Items, addOnOffer(o))
	}
	return cloudapi.ListAddOns200JSONResponse{Success: true, Data: list}, nil
}

// StartCheckout implements the operation startCheckout.
func (b Billing) StartCheckout(ctx context.Context, r cloudapi.StartCheckoutRequestObject) (cloudapi.StartCheckoutResponseObject, error) {
	now, address, err := b.Subscriptions.Checkout(ctx, auth.CallerFrom(ctx).OrgID, r.Body.Plan, b.returnURL(r.Body.ReturnUrl))
	if err != nil {
		return nil, err
	}
	return cloudapi.StartCheckout200JSONResponse{Success: true, Data: cloudapi.Checkout{
		Url: stringOrNil(address), Subscription: subscription(now),
	}}, nil
}

// ChangePlan implements the operation changePlan.
func (b Billing) ChangePlan(ctx context.Context, r cloudapi.ChangePlanRequestObject) (cloudapi.ChangePlanResponseObject, error) {
	now, err := b.Subscriptions.ChangePlan(ctx, auth.CallerFrom(ctx).OrgID, r.Body.Plan)
	if err != nil {
		return nil, err
	}
	return cloudapi.ChangePlan200JSONResponse{Success: true, Data: subscription(now)}, nil
}

// CancelSubscription implements the operation cancelSubscription.
func (b Billing) CancelSubscription(ctx context.Context, _ cloudapi.CancelSubscriptionRequestObject) (cloudapi.CancelSubscriptionResponseObject, error) {
	now, err := b.Subscriptions.Cancel(ctx, auth.CallerFrom(ctx).OrgID)
	if err != nil {
		return nil, err
	}
	return cloudapi.CancelSubscription200JSONResponse{Success: true, Data: subscription(now)}, nil
}

// ResumeSubscription implements the operation resumeSubscription.
func (b Billing) ResumeSubscription(ctx context.Context, _ cloudapi.ResumeSubscriptionRequestObject) (cloudapi.ResumeSubscriptionResponseObject, error) {
	now, err := b.Subscriptions.Resume(ctx, auth.CallerFrom(ctx).OrgID)
	if err != nil {
		return nil, err
	}
	return cloudapi.ResumeSubscription200JSONResponse{Success: true, Data: subscription(now)}, nil
}

// AddAddOn implements the operation addAddOn.
func (b Billing) AddAddOn(ctx context.Context, r cloudapi.AddAddOnRequestObject) (cloudapi.AddAddOnResponseObject, error) {
	now, err := b.Subscriptions.AddAddOn(ctx, auth.CallerFrom(ctx).OrgID, r.Body.AddOn, int(valueOr(r.Body.Quantity, 1)))
	if err != nil {
		return nil, err
	}
	return cloudapi.AddAddOn200JSONResponse{Success: true, Data: subscription(now)}, nil
}

// RemoveAddOn implements the operation removeAddOn.
func (b Billing) RemoveAddOn(ctx context.Context, r cloudapi.RemoveAddOnRequestObject) (cloudapi.RemoveAddOnResponseObject, error) {
	now, err := b.Subscriptions.RemoveAddOn(ctx, auth.CallerFrom(ctx).OrgID, r.AddOnId)
	if err != nil {
		return nil, err
	}
	return cloudapi.RemoveAddOn200JSONResponse{Success: true, Data: subscription(now)}, nil
}

// OpenBillingPortal implements the operation openBillingPortal.
func (b Billing) OpenBillingPortal(ctx context.Context, r cloudapi.OpenBillingPortalRequestObject) (cloudapi.OpenBillingPortalResponseObject, error) {
	back := b.returnURL(valueOr(r.Body, cloudapi.BillingPortalRequest{}).ReturnUrl)
	address, err := b.Subscriptions.Portal(ctx, auth.CallerFrom(ctx).OrgID, back)
	if err != nil {
		return nil, err
	}
	return cloudapi.OpenBillingPortal200JSONResponse{Success: true, Data: cloudapi.BillingPortal{Url: stringOrNil(address)}}, nil
}

func (b Billing) returnURL(address *string) string { return valueOr(address, b.Public.String()) }

// stringOrNil returns a pointer to the address, or nil if it is empty.
func stringOrNil(address string) *string {
	if address == "" {
		return nil
	}
	return &address
}
