package billing_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/tenancy/billing"
	"github.com/browser-svc/svc/shared/fault"
)

// changes are the changes that an organization can make itself.
func (h *fixture) changes(ctx context.Context) map[string]func() error {
	return map[string]func() error{
		"checkout":    func() error { _, _, err := h.Checkout(ctx, h.org, "enterprise", "https://example.com"); return err },
		"change-plan": func() error { _, err := h.ChangePlan(ctx, h.org, "scale"); return err },
		"no plan":     func() error { _, err := h.ChangePlan(ctx, h.org, "unknown"); return err },
		"add-on":      func() error { _, err := h.AddAddOn(ctx, h.org, "profiles", 1); return err },
		"remove":      func() error { _, err := h.RemoveAddOn(ctx, h.org, uuid.New()); return err },
	}
}

func TestChanges_ManualRequiresOperatorWithoutSelfService(t *testing.T) {
	h := newFixture(t)
	h.SelfService, h.Contact = false, "sales@example.com"
	for _, plan := range []string{"free", "team"} {
		if plan != "free" {
			if sub, err := h.Assign(t.Context(), h.org, plan); err != nil || sub.Plan.Slug != plan || sub.Provider != billing.ManualName {
				t.Fatalf("assigned %+v, %v", sub, err)
			}
		}
		for name, change := range h.changes(t.Context()) {
			err := change()
			if !fault.Is(err, fault.Forbidden) || !strings.Contains(err.Error(), "sales@example.com") {
				t.Errorf("%s on plan %s: %v", name, plan, err)
			}
		}
	}
	for _, change := range []func() error{
		func() error { _, err := h.Cancel(t.Context(), h.org); return err },
		func() error { _, err := h.Resume(t.Context(), h.org); return err },
	} {
		if err := change(); err != nil {
			t.Errorf("what was bought can't be cancelled: %v", err)
		}
	}
	_, err := h.Assign(t.Context(), h.org, "team")
	if !fault.Is(err, fault.Conflict) {
		t.Errorf("the same plan: %v", err)
	}
	if _, err = h.Assign(t.Context(), h.org, "unknown"); !fault.Is(err, fault.NotFound) {
		t.Errorf("an unknown plan: %v", err)
	}
	if sub, err := h.Assign(t.Context(), h.org, "free"); err != nil || sub.Paid() {
		t.Errorf("back to free: %+v, %v", sub, err)
	}
}

func TestSuspend_RemovesSlotsUntilRestored(t *testing.T) {
	h := newFixture(t)
	if _, err := h.Assign(t.Context(), h.org, "team"); err != nil {
		t.Fatal(err)
	}
	slots := func() (n *int) {
		t.Helper()
		if err := h.db.Get(&n, `SELECT max_slots FROM license_org WHERE organization_id = $1`, h.org); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := *slots()
	if _, err := h.Suspend(t.Context(), h.org, "fraud"); err != nil {
		t.Fatal(err)
	}
	if *slots() != 0 {
		t.Errorf("%d slots, want none", *slots())
	}
	for name, change := range h.changes(t.Context()) {
		if err := change(); !fault.Is(err, fault.Forbidden) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := h.Suspend(t.Context(), h.org, "")
	if !fault.Is(err, fault.Conflict) {
		t.Errorf("suspended twice: %v", err)
	}
	h.clock.Advance(32 * 24 * 3600e9)
	if n, err := h.Sweep(t.Context()); n != 1 || err != nil || *slots() != 0 { // a new period does not end the suspension
		t.Errorf("renewed %d, %v, with %d slots", n, err, *slots())
	}
	if sub, err := h.Assign(t.Context(), h.org, "scale"); err != nil || *slots() != 0 || !sub.OperatorSuspended {
		t.Errorf("another plan: %v, %d slots", err, *slots())
	}
	if _, err := h.Assign(t.Context(), h.org, "team"); err != nil {
		t.Fatal(err)
	}
	if sub, err := h.Restore(t.Context(), h.org); err != nil || sub.OperatorSuspended || *slots() != before {
		t.Errorf("restored: %v, %d slots, want %d", err, *slots(), before)
	}
	if _, err := h.Restore(t.Context(), h.org); !fault.Is(err, fault.Conflict) {
		t.Errorf("restored twice: %v", err)
	}
}

// slowProvider calls a function while a change is with the provider.
type slowProvider struct {
	billing.Manual
	meanwhile func() error
}

func (s slowProvider) ChangePlan(ctx context.Context, sub billing.Subscription, plan billing.Plan) (billing.Outcome, error) {
	outcome, err := s.Manual.ChangePlan(ctx, sub, plan)
	return outcome, errors.Join(err, s.meanwhile())
}

func TestSuspend_DuringPlanChangeStays(t *testing.T) {
	h := newFixture(t)
	h.Provider = slowProvider{billing.Manual{Clock: h.clock}, func() error {
		_, err := h.Suspend(t.Context(), h.org, "")
		return err
	}}
	sub, err := h.ChangePlan(t.Context(), h.org, "team")
	if err != nil {
		t.Fatal(err)
	}
	if !sub.OperatorSuspended || *sub.Effective().Profiles != 0 {
		t.Errorf("the subscription is %+v", sub)
	} // checkLimits reads the slots
}
