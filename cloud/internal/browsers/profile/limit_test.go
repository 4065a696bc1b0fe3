package profile

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

func TestCreate_LimitIsExactConcurrently(t *testing.T) {
	const limit, callers, each = 25, 32, 3
	f := newFixture(t)
	f.org = f.organization(new(limit))
	services := []*Service{f.svc, f.service(), f.service()}
	source := f.create(named("First"))

	var created, refused atomic.Int32
	begin := make(chan struct{})
	done := make(chan error, callers)
	for i := range callers {
		svc := services[i%len(services)]
		go func() {
			<-begin
			done <- func() error {
				for n := range each {
					err := add(t, svc, f, source.ID, i+n)
					switch {
					case err == nil:
						created.Add(1)
					case fault.Is(err, fault.Forbidden):
						refused.Add(1)
					default:
						return err
					}
				}
				return nil
			}()
		}()
	}
	close(begin)
	for range callers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if rows := f.rows(f.org); rows != limit || created.Load() != limit-1 || refused.Load() != callers*each-limit+1 {
		t.Errorf("got %d rows, %d created, %d refused; want %d rows", rows, created.Load(), refused.Load(), limit)
	}
}

// add creates a profile in one of three ways.
func add(t *testing.T, svc *Service, f *fixture, source uuid.UUID, way int) error {
	var err error
	switch way % 3 {
	case 0:
		_, err = svc.Create(t.Context(), f.org, f.user, named("New"))
	case 1:
		_, err = svc.Duplicate(t.Context(), f.org, source, f.user, nil)
	default:
		err = pg.InTx(t.Context(), svc.DB, func(tx *sqlx.Tx) error {
			_, err := svc.CreateEphemeral(t.Context(), tx, f.org, Draft{})
			return err
		})
	}
	return err
}

func TestLimit_RefusesEveryKindOfCreation(t *testing.T) {
	f := newFixture(t)
	f.org = f.organization(new(1))
	p := f.create(named("Only"))
	for way, name := range []string{"create", "duplicate", "ephemeral"} {
		t.Run(name, func(t *testing.T) {
			wantLimitError(t, add(t, f.svc, f, p.ID, way), LimitError{Current: 1, Limit: 1})
		})
	}
	if f.rows(f.org) != 1 {
		t.Errorf("%d rows", f.rows(f.org))
	}
	f.exec(`UPDATE subscriptions SET base_profile_limit = NULL WHERE organization_id = $1`, f.org)
	f.create(named("Unlimited"))
}

func TestDuplicate_CopiesSource(t *testing.T) {
	f := newFixture(t)
	source := f.create(full())
	f.clock.Advance(time.Hour)
	f.exec(`UPDATE profiles SET last_used_at = now(), version = 7`)
	duplicate, err := f.svc.Duplicate(t.Context(), f.org, source.ID, f.user, nil)
	if err != nil {
		t.Fatal(err)
	}
	if duplicate.Name != "Everything (copy)" || duplicate.Version != 1 || duplicate.LastUsedAt != nil || duplicate.ID == source.ID ||
		!duplicate.CreatedAt.Equal(noon.Add(time.Hour)) || duplicate.TimezoneID != source.TimezoneID || duplicate.Proxy.Server != source.Proxy.Server {
		t.Errorf("got %+v", duplicate)
	}
	if got := f.password(duplicate.ID); got == nil || *got != hunter {
		t.Errorf("the copy's password is %v", got)
	}
	if duplicate, err = f.svc.Duplicate(t.Context(), f.org, source.ID, f.user, new("Other")); err != nil || duplicate.Name != "Other" {
		t.Errorf("named copy: %q, %v", duplicate.Name, err)
	}
}

func TestDuplicate_NameStaysWithinLimit(t *testing.T) {
	for name, want := range map[string]string{
		"A":                      "A (copy)",
		strings.Repeat("ü", 121): strings.Repeat("ü", 121) + " (copy)",
		strings.Repeat("ü", 128): strings.Repeat("ü", 121) + " (copy)",
	} {
		if got := copyName(name); got != want {
			t.Errorf("copyName(%q) = %q", name, got)
		}
	}
}

func TestEphemeral_CountedButNotListed(t *testing.T) {
	f := newFixture(t)
	kept := f.create(named("Kept"))
	id := f.ephemeral(withProxy())
	found, err := f.svc.List(t.Context(), f.org, Filter{}, page.Request{Page: 1, Limit: 20})
	if err != nil || found.Total != 1 || f.rows(f.org) != 2 {
		t.Errorf("%d listed of %d rows, %v", found.Total, f.rows(f.org), err)
	}
	if p := f.get(id); !p.Ephemeral || p.CreatedBy != nil || *f.password(id) != hunter {
		t.Errorf("got %+v", p)
	}
	foreign := f.organization(nil)
	remove := func(org uuid.UUID) {
		t.Helper()
		f.inTx(func(tx *sqlx.Tx) error {
			return f.svc.RemoveEphemeral(t.Context(), tx, org, []uuid.UUID{id, kept.ID})
		})
	}
	remove(foreign)
	f.get(id)
	remove(f.org)
	remove(f.org)
	f.get(kept.ID)
	_, err = f.svc.Get(t.Context(), f.org, id)
	wantFault(t, err, fault.NotFound)
}

func TestEphemeral_AbandonedIsNotCountedUntilResumed(t *testing.T) {
	f := newFixture(t)
	f.org = f.organization(new(2))
	kept, id := f.create(named("Kept")), f.ephemeral(withProxy())
	ids := []uuid.UUID{id, kept.ID}
	f.inTx(func(tx *sqlx.Tx) error { return f.svc.AbandonEphemeral(t.Context(), tx, f.org, ids) })
	if *f.password(id) != hunter {
		t.Error("the configuration does not exist")
	}
	next := f.ephemeral(Draft{})
	f.inTx(func(tx *sqlx.Tx) error { return f.svc.ResumeEphemeral(t.Context(), tx, f.org, ids) })
	f.inTx(func(tx *sqlx.Tx) error { return f.svc.RemoveEphemeral(t.Context(), tx, f.org, []uuid.UUID{next}) })
	if _, err := f.svc.Create(t.Context(), f.org, f.user, named("Third")); !fault.Is(err, fault.Forbidden) {
		t.Errorf("got %v; the resumed profile must count", err)
	}
	sweep := func(want int64) {
		t.Helper()
		if n, err := f.svc.SweepEphemeral(t.Context(), time.Hour); n != want || err != nil {
			t.Errorf("%d swept, %v; want %d", n, err, want)
		}
	}
	f.exec(`UPDATE profiles SET created_at = created_at - interval '1 year'`)
	sweep(0)
	f.inTx(func(tx *sqlx.Tx) error { return f.svc.AbandonEphemeral(t.Context(), tx, f.org, ids) })
	sweep(0)
	f.exec(`UPDATE profiles SET given_up_at = given_up_at - interval '61 minutes'`)
	sweep(1)
	f.get(kept.ID)
}

func TestEphemeral_TakesVersionFromLaunch(t *testing.T) {
	f := newFixture(t)
	id := f.ephemeral(Draft{})
	_, err := f.svc.Get(t.Context(), f.org, id)
	wantFault(t, err, fault.NotFound)
	f.inTx(func(tx *sqlx.Tx) error {
		return f.svc.TouchUsed(t.Context(), tx, []Use{{OrganizationID: f.org, ProfileID: id, BrowserVersion: 153, At: noon}})
	})
	if p := f.get(id); p.BrowserVersion != 153 || p.Name != ephemeralName || !p.LastUsedAt.Equal(noon) {
		t.Errorf("got %+v", p)
	}
}

func TestTouchUsed_KeepsLatestAndSkipsLocked(t *testing.T) {
	f := newFixture(t)
	a, b, foreign := f.create(named("A")), f.create(named("B")), f.organization(nil)
	later := noon.Add(time.Minute)
	touch := func(uses ...Use) {
		t.Helper()
		f.inTx(func(tx *sqlx.Tx) error { return f.svc.TouchUsed(t.Context(), tx, uses) })
	}
	touch(Use{f.org, a.ID, 1, noon}, Use{f.org, a.ID, 1, later}, Use{foreign, b.ID, 1, later}, Use{f.org, newID(), 1, noon})
	touch(Use{f.org, a.ID, 1, noon})
	touch()
	if p := f.get(a.ID); p.LastUsedAt == nil || !p.LastUsedAt.Equal(later) || p.BrowserVersion != 156 || p.Version != 1 {
		t.Errorf("A: %+v", p)
	}
	if p := f.get(b.ID); p.LastUsedAt != nil {
		t.Errorf("another organization updated B: %v", p.LastUsedAt)
	}
	f.inTx(func(tx *sqlx.Tx) error {
		if _, err := find(t.Context(), tx, f.org, a.ID, true); err != nil {
			return err
		}
		touch(Use{f.org, a.ID, 1, later.Add(time.Hour)}, Use{f.org, b.ID, 1, later})
		return nil
	})
	if p := f.get(b.ID); p.LastUsedAt == nil {
		t.Error("B was not updated while A is locked")
	}
}
