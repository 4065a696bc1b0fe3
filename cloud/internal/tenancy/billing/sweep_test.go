package billing_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/tenancy/billing"
)

func TestSweep_SkipsOtherProviders(t *testing.T) {
	h := newFixture(t)
	h.buy("team")
	h.exec(`INSERT INTO organizations (id, name, slug, created_at) SELECT gen_random_uuid(), 'S', 's' || n, now() FROM generate_series(1, 500) n`)
	h.exec(`INSERT INTO subscriptions (organization_id, plan_id, provider, provider_subscription_id, period_anchor, current_period_start, current_period_end, created_at, updated_at)
		SELECT o.id, p.id, 'stripe', 'sub_' || o.slug, $1, $1, $1, $1, $1 FROM organizations o, plans p WHERE o.name = 'S' AND p.slug = 'team'`, start.Add(-24*time.Hour))
	h.clock.Advance(31 * 24 * time.Hour)
	h.sweep(1)
	if n := len(h.invoices()); n != 2 {
		t.Errorf("%d invoices, want 2", n)
	}
}

func TestSweep_RenewsMoreThanOneBatch(t *testing.T) {
	h := newFixture(t)
	h.exec(`INSERT INTO organizations (id, name, slug, created_at) SELECT gen_random_uuid(), 'S', 's' || n, now() FROM generate_series(1, 501) n`)
	h.exec(`INSERT INTO license_org (organization_id) SELECT id FROM organizations WHERE name = 'S'`)
	h.exec(`INSERT INTO subscriptions (organization_id, plan_id, provider, base_profile_limit, period_anchor, current_period_start, current_period_end, created_at, updated_at)
		SELECT o.id, p.id, 'manual', 1, $1, $1, $1, $1, $1 FROM organizations o, plans p WHERE o.name = 'S' AND p.slug = 'team'`, start)
	h.sweep(501)
	h.sweep(0)
}

func TestRenew_TouchesOneOrganization(t *testing.T) {
	h := newFixture(t)
	h.buy("team")
	h.organization("team")
	h.Audit = singleOrgRecorder{h.Audit}
	h.clock.Advance(31 * 24 * time.Hour)
	h.sweep(1)
}

// singleOrgRecorder refuses to record in a transaction that sees two organizations.
type singleOrgRecorder struct{ billing.Recorder }

func (o singleOrgRecorder) Record(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, action, targetID string, details map[string]any) error {
	var visible int
	if err := tx.GetContext(ctx, &visible, `SELECT count(*) FROM subscriptions`); err != nil || visible != 1 {
		return fmt.Errorf("%d subscriptions are seen: %w", visible, err)
	}
	return o.Recorder.Record(ctx, tx, orgID, action, targetID, details)
}

func TestSweep_DeletesOldEventsInBatches(t *testing.T) {
	h := newFixture(t)
	h.exec(`CREATE TABLE removals (n bigint); GRANT ALL ON removals TO svc_app`)
	h.exec(`CREATE FUNCTION note_removal() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN INSERT INTO removals SELECT count(*) FROM removed; RETURN NULL; END $$`)
	h.exec(`CREATE TRIGGER note_removal AFTER DELETE ON payment_events REFERENCING OLD TABLE AS removed
		FOR EACH STATEMENT EXECUTE FUNCTION note_removal()`)
	h.exec(`INSERT INTO payment_events (id, kind, received_at) SELECT 'evt_' || n, 'a.kind', $1 FROM generate_series(1, 1200) n`, start)
	h.exec(`INSERT INTO payment_events (id, kind, received_at) VALUES ('evt_new', 'a.kind', $1)`, start.Add(24*time.Hour))
	h.clock.Advance(30*24*time.Hour + time.Hour)
	h.sweep(0)
	var sizes []int
	var left []string
	if err := h.db.Select(&sizes, `SELECT n FROM removals WHERE n > 0`); err != nil {
		t.Fatal(err)
	}
	if err := h.db.Select(&left, `SELECT id FROM payment_events`); err != nil {
		t.Fatal(err)
	}
	diff(t, "batches", []int{500, 500, 200}, sizes)
	diff(t, "left", []string{"evt_new"}, left)
}
