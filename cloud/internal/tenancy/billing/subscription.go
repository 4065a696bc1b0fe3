package billing

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
)

// freeSlug is the plan of organizations that do not pay.
const freeSlug = "free"

// Status is the status of a subscription.
type Status string

// The statuses of a subscription.
const (
	Active    Status = "active"
	PastDue   Status = "past_due"  // a payment failed and is retried; the limits stay
	Suspended Status = "suspended" // payment is no longer tried; the free plan's limits apply until a payment
	Canceled  Status = "canceled"  // the paid subscription has ended; on the free plan
)

// Limits are the four limits; nil means unlimited, never zero.
type Limits struct {
	Profiles *int
	Members  *int
	APIRpm   *int // requests per minute
	APIRph   *int // requests per hour
}

// The names of the limits in the catalog.
const (
	profileLimit = "profileLimit"
	memberLimit  = "memberLimit"
	apiRpmLimit  = "apiRpmLimit"
	apiRphLimit  = "apiRphLimit"
)

// byName returns the limit with this name; nil if it is unlimited.
func (l Limits) byName(name string) *int {
	return map[string]*int{profileLimit: l.Profiles, memberLimit: l.Members, apiRpmLimit: l.APIRpm, apiRphLimit: l.APIRph}[name]
}

// Plan is a plan; in a Subscription, with the terms of the purchase. Amounts are in
// hundredths of the currency.
type Plan struct {
	ID         uuid.UUID
	Slug       string
	Name       string
	PriceCents int // per interval
	Currency   string
	Interval   string // month or year
	Limits     Limits
	Offers     Offers // current offers, also in a Subscription
}

func (p Plan) offer(slug string) *Offer {
	if i := slices.IndexFunc(p.Offers, func(o Offer) bool { return o.Slug == slug }); i >= 0 {
		return &p.Offers[i]
	}
	return nil
}

// Raises reports whether the plan offers the add-on and has a limit that it can
// raise.
func (p Plan) Raises(addOn string) bool {
	o := p.offer(addOn)
	return o != nil && p.Limits.byName(o.Limit) != nil
}

// Offer is an add-on that can be bought with a plan.
type Offer struct {
	Slug       string `json:"slug"`
	Name       string `json:"name"`
	Limit      string `json:"limit"`      // the name of the limit that it raises
	Amount     int    `json:"amount"`     // the increase of the limit
	PriceCents int    `json:"priceCents"` // per interval
}

// AddOn is a purchased add-on, on the terms of the purchase.
type AddOn struct {
	ID uuid.UUID
	Offer
	Quantity  int
	CreatedAt time.Time
}

// Subscription is an organization's subscription.
type Subscription struct {
	OrgID             uuid.UUID
	Plan              Plan
	Status            Status
	AddOns            []AddOn // oldest first
	Fallback          *Limits // the limits during a suspension; nil otherwise
	OperatorSuspended bool    // an operator suspended the organization: no launches
	Period            *Period // nil for a free plan
	CancelAtPeriodEnd bool
	CreditCents       int64  // of manual billing; used by the next invoices
	Provider          string // the provider that bills; "" for none
	CustomerID        string // the provider's customer ID; kept after the subscription ends
	RemoteID          string // the provider's subscription ID; "" for none
	CheckoutID        string // the provider's open checkout session; "" for none
	CreatedAt         time.Time
	UpdatedAt         time.Time

	revision int64
}

// Paid reports whether the subscription is paid or has an open payment.
func (s Subscription) Paid() bool { return s.Period != nil }

// Additional returns the sum of the add-ons per limit; no limit is nil.
func (s Subscription) Additional() Limits {
	sum := map[string]int{}
	for _, a := range s.AddOns {
		sum[a.Limit] += a.Amount * a.Quantity
	}
	return Limits{
		Profiles: new(sum[profileLimit]), Members: new(sum[memberLimit]),
		APIRpm: new(sum[apiRpmLimit]), APIRph: new(sum[apiRphLimit]),
	}
}

// Effective returns the limits that apply: the purchased ones, or lower ones
// during a suspension. A suspension by an operator leaves no slots.
func (s Subscription) Effective() Limits {
	limits := s.purchased()
	if s.Fallback != nil {
		limits = *s.Fallback
	}
	if s.OperatorSuspended {
		limits.Profiles = new(0)
	}
	return limits
}

// purchased returns the plan's limits plus the add-ons; nil (unlimited) if the
// plan's limit is (specification 8).
func (s Subscription) purchased() Limits {
	base, more := s.Plan.Limits, s.Additional()
	add := func(a, b *int) *int {
		if a == nil {
			return nil
		}
		return new(*a + *b)
	}
	return Limits{
		Profiles: add(base.Profiles, more.Profiles), Members: add(base.Members, more.Members),
		APIRpm: add(base.APIRpm, more.APIRpm), APIRph: add(base.APIRph, more.APIRph),
	}
}

func (s Subscription) addOn(slug string) *AddOn {
	if i := slices.IndexFunc(s.AddOns, func(a AddOn) bool { return a.Slug == slug }); i >= 0 {
		return &s.AddOns[i]
	}
	return nil
}

// withPlan returns the subscription with another plan. Add-ons that the new plan
// offers continue on its terms if they have a limit to raise; the others end.
func (s Subscription) withPlan(newPlan Plan) Subscription {
	var addOns []AddOn
	for _, a := range s.AddOns {
		if newPlan.Raises(a.Slug) {
			a.Offer = *newPlan.offer(a.Slug)
			addOns = append(addOns, a)
		}
	}
	s.Plan, s.AddOns, s.Status, s.Fallback, s.CancelAtPeriodEnd = newPlan, addOns, Active, nil, false
	return s
}

// asEnded returns the subscription on the free plan, after the paid subscription
// has ended.
func (s Subscription) asEnded(free Plan) Subscription {
	s = s.withPlan(free)
	s.Status, s.AddOns, s.Period, s.Provider, s.RemoteID, s.CheckoutID = Canceled, nil, nil, "", "", ""
	return s
}

// withAddOn returns the subscription with more of an add-on. If the add-on
// already exists, its terms stay.
func (s Subscription) withAddOn(o Offer, quantity int, now time.Time) (Subscription, error) {
	s.AddOns = slices.Clone(s.AddOns)
	if had := s.addOn(o.Slug); had != nil {
		had.Quantity += quantity
		return s, s.checkLimit(o.Limit)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return s, fmt.Errorf("generate an add-on ID: %w", err)
	}
	s.AddOns = append(s.AddOns, AddOn{ID: id, Offer: o, Quantity: quantity, CreatedAt: now})
	return s, s.checkLimit(o.Limit)
}

// checkLimit refuses limits above the maximum of the API.
func (s Subscription) checkLimit(limit string) error {
	if total := s.purchased().byName(limit); total != nil && *total > math.MaxInt32 {
		return fault.Invalid(fault.Detail{Field: "quantity", Code: fault.TooBig, Message: "raises the limit above the maximum",
			Constraint: map[string]any{"max": math.MaxInt32}})
	}
	return nil
}

// withoutAddOn returns the subscription without an add-on.
func (s Subscription) withoutAddOn(slug string) Subscription {
	s.AddOns = slices.DeleteFunc(slices.Clone(s.AddOns), func(a AddOn) bool { return a.Slug == slug })
	return s
}
