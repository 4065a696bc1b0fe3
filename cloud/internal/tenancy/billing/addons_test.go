package billing_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/tenancy/billing"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/testenv"
)

func TestAddOn_ChangesLimit(t *testing.T) {
	h := newFixture(t)
	h.buy("team")
	h.clock.Advance(15 * 24 * time.Hour)
	s := h.must(h.AddAddOn(t.Context(), h.org, "profiles", 2))
	diff(t, "limits", limits(70, 10, 600, 20000), s.Effective())
	diff(t, "slots", new(70), h.slots())
	diff(t, "charged", map[string]int64{"Rest of the period: Ten profiles": 1900}, amounts(h.invoices()[1]))
	s = h.must(h.AddAddOn(t.Context(), h.org, "api-rph", 1))
	diff(t, "limits", limits(70, 10, 600, 40000), s.Effective())
	s = h.must(h.RemoveAddOn(t.Context(), h.org, s.AddOns[0].ID))
	diff(t, "limits", limits(50, 10, 600, 40000), s.Effective())
	i := h.invoices()[3]
	diff(t, "credited", map[string]int64{"Unused time: Ten profiles": -1900}, amounts(i))
	if i.AmountDueCents != 0 || s.CreditCents != 1900 {
		t.Errorf("credit %d, invoice %+v", s.CreditCents, i)
	}
	_, err := h.RemoveAddOn(t.Context(), h.org, uuid.Must(uuid.NewV7()))
	wantFault(t, "an unknown add-on", err, fault.NotFound)
}

func TestRemoveAddOn_OtherOrganizationNotFound(t *testing.T) {
	h := newFixture(t)
	h.buy("team")
	mine := h.must(h.AddAddOn(t.Context(), h.org, "profiles", 1)).AddOns[0].ID
	other := h.organization("free")
	if _, _, err := h.Checkout(t.Context(), other, "team", ""); err != nil {
		t.Fatal(err)
	}
	h.DB = h.System // without row-level security, the query itself must restrict the organization
	_, err := h.RemoveAddOn(t.Context(), other, mine)
	wantFault(t, "a foreign add-on", err, fault.NotFound)
	diff(t, "limits", new(60), h.sub().Effective().Profiles)
}

func TestSubscription_KeepsPurchaseTerms(t *testing.T) {
	h := newFixture(t)
	h.buy("team")
	h.must(h.AddAddOn(t.Context(), h.org, "profiles", 1))
	h.exec(`UPDATE plans SET profile_limit = 1, member_limit = NULL, api_rpm_limit = 1, price_cents = 1,
		add_ons = '[{"slug": "profiles", "name": "One profile", "limit": "profileLimit", "amount": 1, "priceCents": 9}]' WHERE slug = 'team'`)
	s := h.sub()
	diff(t, "limits", limits(60, 10, 600, 20000), s.Effective())
	if s.Plan.PriceCents != 9900 || s.AddOns[0].Name != "Ten profiles" {
		t.Errorf("subscription %+v", s)
	}
	s = h.must(h.AddAddOn(t.Context(), h.org, "profiles", 2))
	if len(s.AddOns) != 1 || s.AddOns[0].Quantity != 3 || s.AddOns[0].PriceCents != 1900 {
		t.Errorf("add-ons %+v", s.AddOns)
	}
	diff(t, "limits", limits(80, 10, 600, 20000), s.Effective())
	offered, err := h.AddOns(t.Context(), h.org)
	if err != nil || len(offered) != 1 || offered[0].Amount != 1 || offered[0].Bought == nil || offered[0].Bought.Quantity != 3 {
		t.Errorf("offered %+v, %v", offered, err)
	}
	_, err = h.AddAddOn(t.Context(), h.org, "members", 1)
	wantFault(t, "what is no longer offered", err, fault.Validation)
}

func TestAddAddOn_RefusesUnlimitedLimit(t *testing.T) {
	h := newFixture(t)
	h.exec(`UPDATE plans SET api_rpm_limit = NULL WHERE slug = 'team'`)
	h.buy("team")
	_, err := h.AddAddOn(t.Context(), h.org, "api-rpm", 1)
	wantFault(t, "an offer for what is unlimited", err, fault.Conflict)
	s := h.must(h.AddAddOn(t.Context(), h.org, "api-rph", 1))
	want := limits(50, 10, 0, 40000)
	want.APIRpm = nil
	diff(t, "limits", want, s.Effective())
	s = h.must(h.ChangePlan(t.Context(), h.org, "enterprise"))
	diff(t, "limits", billing.Limits{}, s.Effective())
	diff(t, "slots", (*int)(nil), h.slots())
	if len(s.AddOns) > 0 {
		t.Errorf("add-ons %+v", s.AddOns)
	}
	_, err = h.AddAddOn(t.Context(), h.org, "profiles", 1)
	wantFault(t, "an offer of other plans", err, fault.Conflict)
	h.exec(`UPDATE plans SET profile_limit = NULL WHERE slug = 'scale'`)
	h.must(h.ChangePlan(t.Context(), h.org, "starter"))
	h.must(h.AddAddOn(t.Context(), h.org, "profiles", 1))
	if s = h.must(h.ChangePlan(t.Context(), h.org, "scale")); len(s.AddOns) > 0 || s.Effective().Profiles != nil {
		t.Errorf("an add-on that raises nothing came along: %+v", s)
	}
	_, err = h.AddAddOn(t.Context(), h.org, "gold", 1)
	wantFault(t, "no offer at all", err, fault.Validation)
}

func TestAddAddOn_RequiresPaidPlan(t *testing.T) {
	h := newFixture(t)
	_, err := h.AddAddOn(t.Context(), h.org, "profiles", 1)
	wantFault(t, "what free does not offer", err, fault.Validation)
	h.exec(`UPDATE plans SET add_ons = (SELECT add_ons FROM plans WHERE slug = 'team') WHERE slug = 'free'`)
	_, err = h.AddAddOn(t.Context(), h.org, "profiles", 1)
	wantFault(t, "what free offers", err, fault.Conflict)
}

func TestAddAddOn_RefusesLimitAboveInt32(t *testing.T) {
	h := newFixture(t)
	h.exec(`UPDATE plans SET add_ons = '[{"slug": "profiles", "name": "Many", "limit": "profileLimit", "amount": 2147484, "priceCents": 9}]' WHERE slug = 'team'`)
	h.buy("team")
	_, err := h.AddAddOn(t.Context(), h.org, "profiles", 1000)
	wantFault(t, "too many", err, fault.Validation)
	h.must(h.AddAddOn(t.Context(), h.org, "profiles", 999))
	_, err = h.AddAddOn(t.Context(), h.org, "profiles", 1)
	wantFault(t, "one too many", err, fault.Validation)
}

func TestChangePlan_RepricesAddOns(t *testing.T) {
	h := newFixture(t)
	h.exec(`UPDATE plans SET add_ons = '[{"slug": "profiles", "name": "Fifty profiles", "limit": "profileLimit", "amount": 50, "priceCents": 7000}]' WHERE slug = 'scale'`)
	h.buy("team")
	h.must(h.AddAddOn(t.Context(), h.org, "profiles", 2))
	h.must(h.AddAddOn(t.Context(), h.org, "members", 3))
	s := h.must(h.ChangePlan(t.Context(), h.org, "scale"))
	diff(t, "limits", limits(350, 50, 3000, 100000), s.Effective())
	if len(s.AddOns) != 1 || s.AddOns[0].Name != "Fifty profiles" || s.AddOns[0].Quantity != 2 {
		t.Errorf("add-ons %+v", s.AddOns)
	}
	diff(t, "lines", map[string]int64{
		"Unused time: Team": -9900, "Unused time: Ten profiles": -3800, "Unused time: Five members": -2700,
		"Rest of the period: Scale": 39900, "Rest of the period: Fifty profiles": 14000,
	}, amounts(h.invoices()[3]))
}

func TestChanges_ConcurrentChangesAreNotLost(t *testing.T) {
	h := newFixture(t)
	h.buy("team")
	var bought, refused atomic.Int32
	var wg sync.WaitGroup
	for range 24 {
		wg.Go(func() {
			_, err := h.AddAddOn(t.Context(), h.org, "profiles", 1)
			switch {
			case err == nil:
				bought.Add(1)
			case fault.Is(err, fault.Conflict):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	t.Logf("%d bought, %d refused", bought.Load(), refused.Load())
	if bought.Load() == 0 {
		t.Error("all refused")
	}
	diff(t, "limit", 50+10*int(bought.Load()), *h.sub().Effective().Profiles)
	diff(t, "invoices", 1+int(bought.Load()), len(h.invoices()))
}

func TestChangePlan_WaitsForProfileLimitLock(t *testing.T) {
	h := newFixture(t)
	h.buy("team")
	counting := h.db.MustBegin()
	defer counting.Rollback()
	counting.MustExec(`SELECT effective_profile_limit FROM subscriptions WHERE organization_id = $1 FOR UPDATE`, h.org)
	done := make(chan error, 1)
	go func() { _, err := h.ChangePlan(t.Context(), h.org, "starter"); done <- err }()
	select {
	case err := <-done:
		t.Errorf("changed under a lock: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := counting.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	diff(t, "slots", new(10), h.slots())
}

func TestAddAddOn_SeesPlanChangedWhileWaiting(t *testing.T) {
	h := newFixture(t)
	h.buy("team")
	other := h.db.MustBegin()
	defer other.Rollback()
	other.MustExec(`UPDATE subscriptions SET plan_id = (SELECT id FROM plans WHERE slug = 'scale'), revision = revision + 1`)
	done := make(chan error, 1)
	go func() { _, err := h.Cancel(t.Context(), h.org); done <- err }()
	testenv.Eventually(t, "the change waits", func() bool {
		var waiting bool
		err := h.db.Get(&waiting, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database())`)
		return err == nil && waiting
	})
	if err := other.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if s := h.sub(); s.Plan.Slug != "scale" || !s.CancelAtPeriodEnd {
		t.Errorf("subscription %+v", s)
	}
}

// failingProvider is a provider that fails or blocks.
type failingProvider struct {
	billing.Manual
	fail  error
	enter chan struct{}
	leave chan struct{}
}

func (s failingProvider) ChangePlan(ctx context.Context, sub billing.Subscription, plan billing.Plan) (billing.Outcome, error) {
	if s.fail != nil {
		return billing.Outcome{}, s.fail
	}
	s.enter <- struct{}{}
	<-s.leave
	return s.Manual.ChangePlan(ctx, sub, plan)
}

func TestChange_ProviderFailureChangesNothing(t *testing.T) {
	h := newFixture(t)
	before := h.buy("team")
	refusal := fault.New(fault.Unavailable, "The payment provider cannot be reached.")
	h.Provider = failingProvider{Manual: billing.Manual{Clock: h.clock}, fail: refusal}
	if _, err := h.ChangePlan(t.Context(), h.org, "scale"); !errors.Is(err, refusal) {
		t.Errorf("error %v", err)
	}
	after := h.sub()
	if after.Plan.Slug != before.Plan.Slug || len(h.invoices()) != 1 || len(h.actions()) != 1 {
		t.Errorf("after %+v", after)
	}
	h.must(h.AddAddOn(t.Context(), h.org, "profiles", 1)) // the next change can begin
}

func TestChange_RefusesConcurrentChange(t *testing.T) {
	h := newFixture(t)
	h.buy("team")
	p := failingProvider{Manual: billing.Manual{Clock: h.clock}, enter: make(chan struct{}), leave: make(chan struct{})}
	h.Provider = p
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { _, err := h.ChangePlan(ctx, h.org, "scale"); done <- err }()
	<-p.enter
	_, err := h.AddAddOn(t.Context(), h.org, "profiles", 1)
	wantFault(t, "a second change", err, fault.Conflict)
	h.clock.Advance(40 * 24 * time.Hour)
	h.sweep(0) // the lock also protects against Sweep
	cancel()   // the client disconnects, but the result is saved
	close(p.leave)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if s := h.sub(); s.Plan.Slug != "scale" {
		t.Errorf("subscription %+v", s)
	}
	h.sweep(1)
}

func TestChange_DoesNotOverwriteNewerState(t *testing.T) {
	h := newFixture(t)
	h.buy("team")
	p := failingProvider{Manual: billing.Manual{Clock: h.clock}, enter: make(chan struct{}), leave: make(chan struct{})}
	h.Provider = p
	done := make(chan error)
	go func() { _, err := h.ChangePlan(t.Context(), h.org, "scale"); done <- err }()
	<-p.enter
	h.exec(`UPDATE subscriptions SET status = 'past_due', revision = revision + 1`)
	close(p.leave)
	wantFault(t, "a change of an outdated subscription", <-done, fault.Conflict)
	if s := h.sub(); s.Plan.Slug != "team" || s.Status != billing.PastDue || len(h.invoices()) != 1 {
		t.Errorf("subscription %+v", s)
	}
}

func TestChangeLock_Expires(t *testing.T) {
	h := newFixture(t)
	h.buy("team")
	h.exec(`UPDATE subscriptions SET changing_until = clock_timestamp() - interval '1 second'`) // the process has died
	h.must(h.AddAddOn(t.Context(), h.org, "profiles", 1))
}
