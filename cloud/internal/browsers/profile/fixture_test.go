package profile

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/platform/secret"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/certs"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/settings"
)

// TestMain is also the program that decrypts keys of client certificates.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == certs.DecryptCommand {
		os.Exit(certs.DecryptMain(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// fixture is a Service on its own database, with one organization and one user.
type fixture struct {
	t     *testing.T
	dsn   string
	clock *clock.Fake
	live  *liveSessions
	svc   *Service
	org   uuid.UUID
	user  uuid.UUID
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, dsn: dbtest.NewDSN(t), clock: clock.NewFake(noon), live: &liveSessions{}, user: newID()}
	f.svc = f.service()
	f.exec(`INSERT INTO users (id, email, name, password_hash, created_at) VALUES ($1, 'a@example.com', 'A', '', now())`, f.user)
	f.org = f.organization(nil)
	return f
}

// service returns another Service on the same database, with its own pool.
func (f *fixture) service() *Service {
	f.t.Helper()
	box, err := secret.New(secret.Key{ID: 1, Bytes: bytes.Repeat([]byte{7}, secret.KeySize)})
	if err != nil {
		f.t.Fatal(err)
	}
	pool := dbtest.Open(f.t, f.dsn, pg.Options{MaxOpen: 12})
	return &Service{DB: pool, System: pool, Clock: f.clock, Sealer: box, Limits: subscriptions{pool}, LiveSessions: f.live}
}

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

func (f *fixture) exec(query string, args ...any) {
	f.t.Helper()
	if _, err := f.svc.DB.ExecContext(f.t.Context(), query, args...); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) organization(profileLimit *int) uuid.UUID {
	f.t.Helper()
	id := newID()
	f.exec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Test', $2, now())`, id, id.String())
	f.exec(`INSERT INTO subscriptions (organization_id, plan_id, base_profile_limit, base_member_limit, created_at, updated_at)
		SELECT $1, id, $2, 5, now(), now() FROM plans WHERE slug = 'free'`, id, profileLimit)
	return id
}

func (f *fixture) rows(org uuid.UUID) int {
	f.t.Helper()
	var n int
	err := f.svc.DB.GetContext(f.t.Context(), &n, `SELECT count(*) FROM profiles WHERE organization_id = $1`, org)
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

func (f *fixture) create(draft Draft) Profile {
	f.t.Helper()
	p, err := f.svc.Create(f.t.Context(), f.org, f.user, draft)
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

func (f *fixture) get(id uuid.UUID) Profile {
	f.t.Helper()
	p, err := f.svc.Get(f.t.Context(), f.org, id)
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

func (f *fixture) password(id uuid.UUID) *string {
	f.t.Helper()
	c, err := f.svc.Config(f.t.Context(), f.org, id)
	if err != nil {
		f.t.Fatal(err)
	}
	return c.ProxyPassword
}

func (f *fixture) inTx(fn func(tx *sqlx.Tx) error) {
	f.t.Helper()
	if err := pg.InTx(f.t.Context(), f.svc.DB, fn); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) ephemeral(draft Draft) uuid.UUID {
	f.t.Helper()
	var id uuid.UUID
	f.inTx(func(tx *sqlx.Tx) (err error) {
		id, err = f.svc.CreateEphemeral(f.t.Context(), tx, f.org, draft)
		return err
	})
	return id
}

func named(name string) Draft { return Draft{Fields: Fields{Name: name, BrowserVersion: 156}} }

const hunter = "hunter2-Ünïcode"

// withProxy returns a draft with a proxy and its password.
func withProxy() Draft {
	d := named("Proxied")
	d.Proxy = &settings.Proxy{Server: "http://proxy.example.com:3128", Bypass: "localhost", Username: "robot"}
	d.ProxyPassword = new(hunter)
	return d
}

func wantFault(t *testing.T, err error, kind fault.Kind) *fault.Error {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Fatalf("got %v; want a fault of kind %d", err, kind)
	}
	return fault.From(err)
}

func wantLimitError(t *testing.T, err error, want LimitError) {
	t.Helper()
	public := wantFault(t, err, fault.Forbidden)
	var limit *LimitError
	if !errors.As(err, &limit) || *limit != want {
		t.Errorf("cause %v; want %v", limit, want)
	}
	if len(public.Details) != 1 || public.Details[0].Field != "profileLimit" || public.Details[0].Code != fault.Custom ||
		public.Details[0].Constraint["current"] != want.Current || public.Details[0].Constraint["limit"] != want.Limit {
		t.Errorf("details %+v; want those of %v", public.Details, want)
	}
}

// subscriptions implements Limits from the table.
type subscriptions struct{ db *sqlx.DB }

func (s subscriptions) LockProfileLimit(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) (limit *int, err error) {
	err = tx.GetContext(ctx, &limit,
		`SELECT effective_profile_limit FROM subscriptions WHERE organization_id = $1 FOR UPDATE`, orgID)
	return limit, err
}

func (s subscriptions) Ceilings(ctx context.Context, q sqlx.QueryerContext, orgID uuid.UUID) (c Ceilings, err error) {
	err = q.QueryRowxContext(ctx,
		`SELECT effective_profile_limit, effective_member_limit FROM subscriptions WHERE organization_id = $1`, orgID).
		Scan(&c.ProfileLimit, &c.MemberLimit)
	return c, err
}

// liveSessions implements LiveSessions with fixed numbers.
type liveSessions struct {
	mu    sync.Mutex
	count map[uuid.UUID]int
}

func (l *liveSessions) set(id uuid.UUID, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count = map[uuid.UUID]int{id: n}
}

func (l *liveSessions) HeldByProfile(_ context.Context, _ sqlx.QueryerContext, _, id uuid.UUID) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count[id], nil
}

func (l *liveSessions) LiveByProfile(_ context.Context, _ sqlx.QueryerContext, _ uuid.UUID, ids []uuid.UUID) (map[uuid.UUID]int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := map[uuid.UUID]int{}
	for _, id := range ids {
		if l.count[id] > 0 {
			found[id] = l.count[id]
		}
	}
	return found, nil
}

func (l *liveSessions) LiveProfiles(context.Context, sqlx.QueryerContext, uuid.UUID) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.count), nil
}
