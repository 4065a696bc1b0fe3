package billing_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/tenancy/billing"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

func TestSubscription_NewOrganizationIsFree(t *testing.T) {
	h := newFixture(t)
	s := h.sub()
	if s.Plan.Slug != "free" || s.Status != billing.Active || s.Paid() || s.CancelAtPeriodEnd || len(s.AddOns) > 0 {
		t.Errorf("subscription %+v", s)
	}
	diff(t, "limits", limits(3, 1, 60, 1000), s.Effective())
	if n := len(h.invoices()); n > 0 {
		t.Errorf("%d invoices", n)
	}
}

func TestCheckout_TakesEffectImmediately(t *testing.T) {
	h := newFixture(t)
	s := h.buy("team")
	end := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	diff(t, "period", &billing.Period{Anchor: start, Start: start, End: end}, s.Period)
	diff(t, "limits", limits(50, 10, 600, 20000), s.Effective())
	diff(t, "slots", new(50), h.slots())
	diff(t, "audit", []string{"subscription.checkedOut"}, h.actions())
	invoices := h.invoices()
	if len(invoices) != 1 {
		t.Fatalf("%d invoices, want 1", len(invoices))
	}
	i := invoices[0]
	diff(t, "lines", billing.Lines{{Description: "Team", Quantity: 1, AmountCents: 9900, PeriodStart: start, PeriodEnd: end}}, i.Lines)
	if want := fmt.Sprintf("%X-0001", h.org[12:]); i.Number != want || i.Status != billing.InvoicePaid || i.Currency != "usd" ||
		i.SubtotalCents != 9900 || i.TotalCents != 9900 || i.AmountDueCents != 9900 || i.HostedURL != nil ||
		!i.PeriodStart.Equal(start) || !i.PeriodEnd.Equal(end) || !i.CreatedAt.Equal(start) {
		t.Errorf("invoice %+v", i)
	}
}

func TestCheckout_Refusals(t *testing.T) {
	h := newFixture(t)
	_, _, err := h.Checkout(t.Context(), h.org, "golden", "")
	wantFault(t, "an unknown plan", err, fault.NotFound)
	_, _, err = h.Checkout(t.Context(), h.org, "free", "")
	wantFault(t, "the free plan", err, fault.Validation)
	h.buy("team")
	_, _, err = h.Checkout(t.Context(), h.org, "scale", "")
	wantFault(t, "a second plan", err, fault.Conflict)
	if n := len(h.invoices()); n != 1 {
		t.Errorf("%d invoices, want 1", n)
	}
}

func TestChangePlan_ProratesPeriod(t *testing.T) {
	h := newFixture(t)
	h.buy("team")
	h.clock.Advance(15 * 24 * time.Hour) // half of the month
	s := h.must(h.ChangePlan(t.Context(), h.org, "scale"))
	diff(t, "limits", limits(250, 50, 3000, 100000), s.Effective())
	diff(t, "slots", new(250), h.slots())
	if !s.Period.Start.Equal(start) {
		t.Errorf("a new period: %+v", s.Period)
	}
	i := h.invoices()[1]
	diff(t, "lines", map[string]int64{"Unused time: Team": -4950, "Rest of the period: Scale": 19950}, amounts(i))
	if i.TotalCents != 15000 || i.AmountDueCents != 15000 || !i.PeriodStart.Equal(h.clock.Now()) || !i.PeriodEnd.Equal(s.Period.End) {
		t.Errorf("invoice %+v", i)
	}
	_, err := h.ChangePlan(t.Context(), h.org, "scale")
	wantFault(t, "the same plan", err, fault.Conflict)
	_, err = h.ChangePlan(t.Context(), h.org, "golden")
	wantFault(t, "an unknown plan", err, fault.NotFound)
}

func TestChangePlan_RoundsToCent(t *testing.T) {
	h := newFixture(t)
	h.exec(`INSERT INTO plans (id, slug, name, price_cents, currency, interval, profile_limit, position, add_ons)
		VALUES (gen_random_uuid(), 'dear', 'Dear', 2147483647, 'usd', 'year', 1, 9,
		'[{"slug": "dear", "name": "Dear too", "limit": "profileLimit", "amount": 1, "priceCents": 2147483647}]')`)
	h.buy("starter")
	h.clock.Advance(20 * 24 * time.Hour)
	h.must(h.ChangePlan(t.Context(), h.org, "team"))
	diff(t, "lines", map[string]int64{"Unused time: Starter": -967, "Rest of the period: Team": 3300}, amounts(h.invoices()[1]))
	h.must(h.ChangePlan(t.Context(), h.org, "dear"))
	h.clock.Advance(365 * 12 * time.Hour)
	h.must(h.AddAddOn(t.Context(), h.org, "dear", 1000))
	diff(t, "lines", map[string]int64{"Rest of the period: Dear too": 1073741823500}, amounts(h.invoices()[3]))
}

func TestInvoices_UseCreditFirst(t *testing.T) {
	h := newFixture(t)
	h.buy("scale")
	h.clock.Advance(15 * 24 * time.Hour)
	s := h.must(h.ChangePlan(t.Context(), h.org, "starter"))
	i := h.invoices()[1]
	if i.TotalCents != -19950+1450 || i.AmountDueCents != 0 || s.CreditCents != 18500 {
		t.Errorf("credit %d, invoice %+v", s.CreditCents, i)
	}
	for month, want := range []struct{ due, left int64 }{{0, 15600}, {0, 12700}, {0, 9800}, {0, 6900}, {0, 4000}, {0, 1100}, {1800, 0}, {2900, 0}} {
		h.clock.Advance(31 * 24 * time.Hour)
		h.sweep(1)
		invoices := h.invoices()
		i := invoices[len(invoices)-1]
		if i.TotalCents != 2900 || i.AmountDueCents != want.due || h.sub().CreditCents != want.left {
			t.Errorf("month %d: credit %d, invoice %+v; want %+v", month, h.sub().CreditCents, i, want)
		}
	}
}

func TestChangePlan_ToFreeAndBack(t *testing.T) {
	h := newFixture(t)
	h.buy("team")
	h.must(h.AddAddOn(t.Context(), h.org, "members", 1))
	h.clock.Advance(15 * 24 * time.Hour)
	s := h.must(h.ChangePlan(t.Context(), h.org, "free"))
	if s.Paid() || s.Status != billing.Canceled || len(s.AddOns) > 0 || s.CreditCents != 4950+450 {
		t.Errorf("subscription %+v", s)
	}
	diff(t, "limits", limits(3, 1, 60, 1000), s.Effective())
	s = h.must(h.ChangePlan(t.Context(), h.org, "starter"))
	if !s.Paid() || s.Status != billing.Active || s.CreditCents != 5400-2900 {
		t.Errorf("subscription %+v", s)
	}
	diff(t, "audit", []string{"subscription.checkedOut", "subscription.addOnAdded", "subscription.planChanged", "subscription.planChanged"}, h.actions())
}

func TestChangePlan_YearlyPlanStartsNewPeriod(t *testing.T) {
	h := newFixture(t)
	h.exec(`INSERT INTO plans (id, slug, name, price_cents, currency, interval, position)
		VALUES (gen_random_uuid(), 'yearly', 'Yearly', 100000, 'usd', 'year', 9), (gen_random_uuid(), 'euro', 'Euro', 100, 'eur', 'month', 10)`)
	h.buy("team")
	h.clock.Advance(15 * 24 * time.Hour)
	s := h.must(h.ChangePlan(t.Context(), h.org, "yearly"))
	if !s.Period.Start.Equal(h.clock.Now()) || !s.Period.End.Equal(h.clock.Now().AddDate(1, 0, 0)) {
		t.Errorf("period %+v", s.Period)
	}
	diff(t, "lines", map[string]int64{"Unused time: Team": -4950, "Yearly": 100000}, amounts(h.invoices()[1]))
	diff(t, "limits", billing.Limits{}, s.Effective())
	_, err := h.ChangePlan(t.Context(), h.org, "euro")
	wantFault(t, "another currency", err, fault.Conflict)
}

func TestPeriod_KeepsDayOfMonth(t *testing.T) {
	h := newFixture(t)
	moment := time.Date(2027, 1, 31, 8, 0, 0, 0, time.UTC)
	h.clock.Advance(moment.Sub(start))
	h.buy("starter")
	for _, want := range []string{"2027-02-28", "2027-03-31", "2027-04-30", "2027-05-31"} {
		end := h.sub().Period.End
		if got := end.Format(time.DateOnly); got != want || end.Hour() != 8 {
			t.Errorf("the period ends %v, want %s", end, want)
		}
		h.clock.Advance(end.Sub(h.clock.Now()))
		h.sweep(1)
	}
}

func TestSweep_RenewsOnlyDueSubscriptions(t *testing.T) {
	h := newFixture(t)
	h.buy("team")
	h.must(h.AddAddOn(t.Context(), h.org, "profiles", 2))
	h.exec(`UPDATE plans SET price_cents = price_cents * 10 WHERE price_cents > 0`)
	h.clock.Advance(30*24*time.Hour - time.Second)
	h.sweep(0)
	h.clock.Advance(time.Second)
	done := make(chan error)
	for range 4 {
		go func() { _, err := h.Sweep(t.Context()); done <- err }()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	h.sweep(0)
	invoices := h.invoices()
	if len(invoices) != 3 {
		t.Fatalf("%d invoices, want 3", len(invoices))
	}
	diff(t, "lines, at the price that it was bought for", map[string]int64{"Team": 9900, "Ten profiles": 3800}, amounts(invoices[2]))
	if got := h.actions(); got[len(got)-1] != "subscription.renewed" {
		t.Errorf("audit %v", got)
	}
	// A late sweep renews all missed periods.
	h.clock.Advance(62 * 24 * time.Hour)
	h.sweep(1)
	h.sweep(1)
	h.sweep(0)
}

func TestCancel_EndsWithPeriodAndDeletesNothing(t *testing.T) {
	h := newFixture(t)
	_, err := h.Cancel(t.Context(), h.org)
	wantFault(t, "cancelling the free plan", err, fault.Conflict)
	_, err = h.Resume(t.Context(), h.org)
	wantFault(t, "resuming the free plan", err, fault.Conflict)
	h.buy("team")
	h.must(h.AddAddOn(t.Context(), h.org, "profiles", 1))
	for i := range 20 {
		h.exec(`INSERT INTO profiles (id, organization_id, name, browser_version, created_at, updated_at)
			VALUES (gen_random_uuid(), $1, $2, 156, now(), now())`, h.org, fmt.Sprint("P", i))
	}
	if s := h.must(h.Cancel(t.Context(), h.org)); !s.CancelAtPeriodEnd || s.Plan.Slug != "team" {
		t.Errorf("cancelled %+v", s)
	}
	if s := h.must(h.Resume(t.Context(), h.org)); s.CancelAtPeriodEnd {
		t.Errorf("resumed %+v", s)
	}
	h.must(h.Cancel(t.Context(), h.org))
	h.must(h.Cancel(t.Context(), h.org))
	diff(t, "limits until the end", new(60), h.sub().Effective().Profiles)
	h.clock.Advance(30 * 24 * time.Hour)
	h.sweep(1)
	s := h.sub()
	if s.Plan.Slug != "free" || s.Status != billing.Canceled || s.Paid() || s.CancelAtPeriodEnd || len(s.AddOns) > 0 {
		t.Errorf("ended %+v", s)
	}
	diff(t, "limits", limits(3, 1, 60, 1000), s.Effective())
	diff(t, "slots", new(3), h.slots())
	var profiles int
	if err := h.db.Get(&profiles, `SELECT count(*) FROM profiles`); err != nil || profiles != 20 {
		t.Errorf("%d profiles, %v; want 20", profiles, err)
	}
	if n := len(h.invoices()); n != 2 {
		t.Errorf("%d invoices, want 2", n)
	}
	diff(t, "audit", []string{
		"subscription.checkedOut", "subscription.addOnAdded", "subscription.canceled", "subscription.resumed",
		"subscription.canceled", "subscription.canceled", "subscription.ended",
	}, h.actions())
	h.buy("starter")
}

func TestChangePlan_RevertsCancellation(t *testing.T) {
	h := newFixture(t)
	h.buy("team")
	h.must(h.Cancel(t.Context(), h.org))
	if s := h.must(h.ChangePlan(t.Context(), h.org, "scale")); s.CancelAtPeriodEnd {
		t.Errorf("subscription %+v", s)
	}
}

func TestEndOrganization_AllowsManualBilling(t *testing.T) {
	h := newFixture(t)
	h.buy("team")
	err := pg.InOrg(t.Context(), h.DB, h.org, func(tx *sqlx.Tx) error { return h.EndOrganization(t.Context(), tx, h.org) })
	if err != nil {
		t.Error(err)
	}
}

func TestPortal_ManualHasNone(t *testing.T) {
	h := newFixture(t)
	if url, err := h.Portal(t.Context(), h.org, "https://example.com/"); url != "" || err != nil {
		t.Errorf("portal %q, %v", url, err)
	}
}

func TestInvoices_Pagination(t *testing.T) {
	h := newFixture(t)
	h.buy("starter")
	for range 4 {
		h.clock.Advance(31 * 24 * time.Hour)
		h.sweep(1)
	}
	other := h.organization("free")
	found, err := h.Invoices(t.Context(), h.org, page.Request{Page: 2, Limit: 2, SortBy: "createdAt", Desc: true})
	if err != nil || found.Total != 5 || len(found.Items) != 2 || found.Items[0].Number[9:] != "0003" {
		t.Errorf("page %+v, %v", found, err)
	}
	h.DB = h.System // without row-level security, the query itself must restrict the organization
	if found, err := h.Invoices(t.Context(), other, page.Request{Page: 1, Limit: 2}); err != nil || found.Total != 0 || len(found.Items) != 0 {
		t.Errorf("another organization's: %+v, %v", found, err)
	}
}
