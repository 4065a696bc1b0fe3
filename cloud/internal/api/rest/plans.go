package rest

import (
	"context"

	"github.com/browser-svc/svc/cloud/internal/tenancy/plan"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/pageapi"
)

// Plans serves the Plans operations.
type Plans struct {
	Plans plans
}

type plans interface {
	List(ctx context.Context, r page.Request) (page.Page[plan.Plan], error)
}

// ListPlans implements the operation listPlans.
func (p Plans) ListPlans(ctx context.Context, r cloudapi.ListPlansRequestObject) (cloudapi.ListPlansResponseObject, error) {
	params := r.Params
	sortBy := valueOr(params.SortBy, cloudapi.PlanSortFieldPosition)
	found, err := p.Plans.List(ctx, pageapi.Request(params.Page, params.Limit, string(sortBy), params.SortOrder))
	if err != nil {
		return nil, err
	}
	list := cloudapi.PlanList{Items: []cloudapi.Plan{}, Pagination: pageapi.Pagination(found)}
	for _, item := range found.Items {
		list.Items = append(list.Items, planItem(item))
	}
	return cloudapi.ListPlans200JSONResponse{Success: true, Data: list}, nil
}

func planItem(p plan.Plan) cloudapi.Plan {
	item := cloudapi.Plan{
		Id: p.ID, Slug: p.Slug, Name: p.Name,
		PriceCents: int32(p.PriceCents), Currency: p.Currency, Interval: cloudapi.PlanInterval(p.Interval),
		ProfileLimit: limit(p.Profiles), MemberLimit: limit(p.Members),
		ApiRpmLimit: limit(p.APIRpm), ApiRphLimit: limit(p.APIRph),
		AddOns: []cloudapi.PlanAddOn{},
	}
	for _, a := range p.AddOns {
		item.AddOns = append(item.AddOns, cloudapi.PlanAddOn{
			Slug: a.Slug, Name: a.Name, Limit: cloudapi.PlanLimitName(a.Limit),
			Amount: int32(a.Amount), PriceCents: int32(a.PriceCents),
		})
	}
	return item
}

// limit converts a limit; nil means unlimited.
func limit(n *int) *int32 {
	if n == nil {
		return nil
	}
	return new(int32(*n))
}
