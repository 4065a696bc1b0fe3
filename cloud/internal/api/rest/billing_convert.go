package rest

import (
	"github.com/browser-svc/svc/cloud/internal/tenancy/billing"
	"github.com/browser-svc/svc/gen/cloudapi"
)

func subscription(s billing.Subscription) cloudapi.Subscription {
	base, more, effective := s.Plan.Limits, s.Additional(), s.Effective()
	result := cloudapi.Subscription{
		Plan: cloudapi.SubscribedPlan{
			Id: s.Plan.ID, Slug: s.Plan.Slug, Name: s.Plan.Name, PriceCents: int32(s.Plan.PriceCents),
			Currency: s.Plan.Currency, Interval: cloudapi.PlanInterval(s.Plan.Interval),
		},
		Status:                 cloudapi.SubscriptionStatus(s.Status),
		BaseProfileLimit:       limit(base.Profiles),
		AdditionalProfileLimit: int32(*more.Profiles),
		EffectiveProfileLimit:  limit(effective.Profiles),
		BaseMemberLimit:        limit(base.Members),
		AdditionalMemberLimit:  int32(*more.Members),
		EffectiveMemberLimit:   limit(effective.Members),
		BaseApiRpmLimit:        limit(base.APIRpm),
		AdditionalApiRpmLimit:  int32(*more.APIRpm),
		EffectiveApiRpmLimit:   limit(effective.APIRpm),
		BaseApiRphLimit:        limit(base.APIRph),
		AdditionalApiRphLimit:  int32(*more.APIRph),
		EffectiveApiRphLimit:   limit(effective.APIRph),
		CancelAtPeriodEnd:      s.CancelAtPeriodEnd,
		AddOns:                 []cloudapi.SubscriptionAddOn{},
		CreatedAt:              s.CreatedAt,
		UpdatedAt:              s.UpdatedAt,
	}
	if s.OperatorSuspended {
		result.Status = cloudapi.SubscriptionStatus(billing.Suspended)
	}
	if s.Period != nil {
		result.CurrentPeriodStart, result.CurrentPeriodEnd = &s.Period.Start, &s.Period.End
	}
	for _, a := range s.AddOns {
		result.AddOns = append(result.AddOns, cloudapi.SubscriptionAddOn{
			Id: a.ID, Slug: a.Slug, Name: a.Name, Limit: cloudapi.PlanLimitName(a.Limit), Amount: int32(a.Amount),
			Quantity: int32(a.Quantity), PriceCents: int32(a.PriceCents), CreatedAt: a.CreatedAt,
		})
	}
	return result
}

func addOnOffer(o billing.AvailableAddOn) cloudapi.AddOnOffer {
	offer := cloudapi.AddOnOffer{
		Slug: o.Slug, Name: o.Name, Limit: cloudapi.PlanLimitName(o.Limit), Amount: int32(o.Amount), PriceCents: int32(o.PriceCents),
	}
	if o.Bought != nil {
		offer.Quantity, offer.AddOnId = int32(o.Bought.Quantity), &o.Bought.ID
	}
	return offer
}

func invoice(i billing.Invoice) cloudapi.Invoice {
	result := cloudapi.Invoice{
		Id: i.ID, Number: i.Number, Status: cloudapi.InvoiceStatus(i.Status), Currency: i.Currency,
		SubtotalCents: i.SubtotalCents, TotalCents: i.TotalCents, AmountDueCents: i.AmountDueCents,
		Lines: []cloudapi.InvoiceLine{}, PeriodStart: i.PeriodStart, PeriodEnd: i.PeriodEnd,
		HostedUrl: i.HostedURL, CreatedAt: i.CreatedAt,
	}
	for _, l := range i.Lines {
		result.Lines = append(result.Lines, cloudapi.InvoiceLine{
			Description: l.Description, Quantity: l.Quantity, AmountCents: l.AmountCents, PeriodStart: l.PeriodStart, PeriodEnd: l.PeriodEnd,
		})
	}
	return result
}
