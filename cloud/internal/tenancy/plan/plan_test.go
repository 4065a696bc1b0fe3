package plan_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/tenancy/plan"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

var now = time.Date(2026, 11, 21, 10, 15, 0, 0, time.UTC)

func organization(t *testing.T, db *sqlx.DB) uuid.UUID {
	t.Helper()
	id := uuid.Must(uuid.NewV7())
	db.MustExec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'O', $2, now())`, id, id.String())
	return id
}

func subscribe(t *testing.T, db *sqlx.DB, slug string) (uuid.UUID, error) {
	t.Helper()
	orgID := organization(t, db)
	return orgID, pg.InTx(t.Context(), db, func(tx *sqlx.Tx) error {
		return plan.New(db).Subscribe(t.Context(), tx, orgID, slug, now)
	})
}

func limits(t *testing.T, db *sqlx.DB, orgID uuid.UUID) plan.Limits {
	t.Helper()
	got, err := plan.New(db).Limits(t.Context(), db, orgID)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestList_PagesAndSorts(t *testing.T) {
	plans := plan.New(dbtest.New(t))
	bySize := []string{"free", "starter", "team", "scale", "enterprise"}
	backwards := slices.Clone(bySize)
	slices.Reverse(backwards)
	for _, test := range []struct {
		request page.Request
		want    []string
	}{
		{page.Request{Page: 1, Limit: 20, SortBy: "position"}, bySize},
		{page.Request{Page: 1, Limit: 20, SortBy: "position", Desc: true}, backwards},
		{page.Request{Page: 1, Limit: 20, SortBy: "priceCents"}, bySize},
		{page.Request{Page: 1, Limit: 20, SortBy: "name"}, []string{"enterprise", "free", "scale", "starter", "team"}},
		{page.Request{Page: 2, Limit: 2, SortBy: "position"}, bySize[2:4]},
		{page.Request{Page: 4, Limit: 2, SortBy: "position"}, []string{}},
	} {
		found, err := plans.List(t.Context(), test.request)
		if err != nil {
			t.Fatal(err)
		}
		slugs := []string{}
		for _, p := range found.Items {
			slugs = append(slugs, p.Slug)
			if p.AddOns == nil || p.Currency != "usd" || p.Interval != "month" {
				t.Errorf("plan %+v", p)
			}
		}
		if diff := cmp.Diff(test.want, slugs); diff != "" || found.Total != 5 {
			t.Errorf("%+v: of %d (-want +got):\n%s", test.request, found.Total, diff)
		}
	}
}

func TestList_ReadsAddOns(t *testing.T) {
	db := dbtest.New(t)
	want := plan.AddOns{{Slug: "seats", Name: "Five seats", Limit: "memberLimit", Amount: 5, PriceCents: 1000}}
	db.MustExec(`UPDATE plans SET add_ons = $1 WHERE slug = 'free'`, want)
	plans, err := plan.New(db).List(t.Context(), page.Request{Page: 1, Limit: 1, SortBy: "position"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, plans.Items[0].AddOns); diff != "" {
		t.Errorf("add-ons (-want +got):\n%s", diff)
	}
}

func TestSubscribe_CopiesLimits(t *testing.T) {
	db := dbtest.New(t)
	orgID, err := subscribe(t, db, plan.Free)
	if err != nil {
		t.Fatal(err)
	}
	db.MustExec(`UPDATE plans SET profile_limit = 1, member_limit = NULL, api_rpm_limit = 1, api_rph_limit = 1`)
	want := plan.Limits{Profiles: new(3), Members: new(1), APIRpm: new(60), APIRph: new(1000)}
	if diff := cmp.Diff(want, limits(t, db, orgID)); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

func TestLimits_AddOnRaisesFiniteLimit(t *testing.T) {
	db := dbtest.New(t)
	free, err := subscribe(t, db, "free")
	if err != nil {
		t.Fatal(err)
	}
	enterprise, err := subscribe(t, db, "enterprise")
	if err != nil {
		t.Fatal(err)
	}
	db.MustExec(`UPDATE subscriptions SET additional_profile_limit = 5, additional_api_rph_limit = 7`)
	want := plan.Limits{Profiles: new(8), Members: new(1), APIRpm: new(60), APIRph: new(1007)}
	if diff := cmp.Diff(want, limits(t, db, free)); diff != "" {
		t.Errorf("free (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(plan.Limits{}, limits(t, db, enterprise)); diff != "" {
		t.Errorf("enterprise (-want +got):\n%s", diff)
	}
}

func TestSubscribe_Refuses(t *testing.T) {
	db := dbtest.New(t)
	if _, err := subscribe(t, db, "golden"); !fault.Is(err, fault.NotFound) {
		t.Errorf("an unknown plan: %v, want not found", err)
	}
	orgID, err := subscribe(t, db, "free")
	if err != nil {
		t.Fatal(err)
	}
	err = pg.InTx(t.Context(), db, func(tx *sqlx.Tx) error {
		return plan.New(db).Subscribe(t.Context(), tx, orgID, "team", now)
	})
	if !pg.IsUnique(err, "subscriptions_pkey") {
		t.Errorf("a second subscription: %v, want a violation", err)
	}
	if _, err := plan.New(db).Limits(t.Context(), db, organization(t, db)); !fault.Is(err, fault.NotFound) {
		t.Errorf("limits without a subscription: %v, want not found", err)
	}
}

func TestLockProfileLimit_BlocksOthers(t *testing.T) {
	db := dbtest.New(t)
	orgID, err := subscribe(t, db, "free")
	if err != nil {
		t.Fatal(err)
	}
	service := plan.New(db)
	first := db.MustBegin()
	defer first.Rollback()
	if limit, err := service.LockProfileLimit(t.Context(), first, orgID); err != nil || *limit != 3 {
		t.Fatalf("limit %v, %v; want 3", limit, err)
	}
	second := db.MustBegin()
	defer second.Rollback()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if limit, err := service.LockProfileLimit(ctx, second, orgID); err == nil {
		t.Errorf("a second transaction got the limit %v while the first holds it", *limit)
	}
	if err := first.Commit(); err != nil {
		t.Fatal(err)
	}
	third := db.MustBegin()
	defer third.Rollback()
	if _, err := service.LockProfileLimit(t.Context(), third, orgID); err != nil {
		t.Errorf("after the first ended: %v", err)
	}
}

func TestLockProfileLimit_RemovedOrganizationIsNotFound(t *testing.T) {
	db := dbtest.New(t)
	orgID, err := subscribe(t, db, "free")
	if err != nil {
		t.Fatal(err)
	}
	service := plan.New(db)
	removal := db.MustBegin()
	defer removal.Rollback()
	if _, err := service.LockMemberLimit(t.Context(), removal, orgID); err != nil {
		t.Fatal(err)
	}
	removal.MustExec(`DELETE FROM organizations WHERE id = $1`, orgID)
	locked := make(chan error, 1)
	go func() {
		tx := db.MustBegin()
		defer tx.Rollback()
		_, err := service.LockProfileLimit(t.Context(), tx, orgID)
		locked <- err
	}()
	for waits := false; !waits; {
		if err := db.GetContext(t.Context(), &waits, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)`); err != nil {
			t.Fatal(err)
		}
	}
	if err := removal.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-locked; !fault.Is(err, fault.NotFound) {
		t.Errorf("after the removal: %v, want not found", err)
	}
}

func TestLockProfileLimit_UnlimitedIsNil(t *testing.T) {
	db := dbtest.New(t)
	orgID, err := subscribe(t, db, "enterprise")
	if err != nil {
		t.Fatal(err)
	}
	tx := db.MustBegin()
	defer tx.Rollback()
	if limit, err := plan.New(db).LockProfileLimit(t.Context(), tx, orgID); limit != nil || err != nil {
		t.Errorf("limit %v, %v; want none", limit, err)
	}
}

func TestLockMemberLimit_IsIndependentOfProfileLimit(t *testing.T) {
	db := dbtest.New(t)
	for slug, want := range map[string]*int{"free": new(1), "enterprise": nil} {
		orgID, err := subscribe(t, db, slug)
		if err != nil {
			t.Fatal(err)
		}
		db.MustExec(`UPDATE subscriptions SET additional_member_limit = 4 WHERE organization_id = $1`, orgID)
		if want != nil {
			want = new(*want + 4)
		}
		tx := db.MustBegin()
		defer tx.Rollback()
		got, err := plan.New(db).LockMemberLimit(t.Context(), tx, orgID)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", slug, err, diff)
		}
	}
}
