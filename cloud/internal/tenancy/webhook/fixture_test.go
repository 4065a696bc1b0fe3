package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/browser-svc/svc/cloud/internal/platform/secret"
	"github.com/browser-svc/svc/cloud/internal/tenancy/webhook/sender"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/testenv"
)

// fixture is a Service on its own database, with one organization.
type fixture struct {
	*Service
	t   *testing.T
	log *testenv.Log
	org uuid.UUID
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dsn := dbtest.NewDSN(t)
	f := &fixture{t: t, log: &testenv.Log{}}
	f.Service = &Service{
		DB: dbtest.Open(t, dsn, pg.Options{Role: pg.AppRole, MaxOpen: 12}), System: dbtest.Open(t, dsn, pg.Options{Role: pg.AllRole, MaxOpen: 20, PreferIndexes: true}),
		Clock: clock.System{}, Sealer: newBox(t, 1), Audit: recorder{}, Logger: slog.New(slog.NewTextHandler(f.log, nil)), OfflineAfter: 2 * time.Minute,
		Sender: sender.New([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}), AllowHTTP: true, UserAgent: "svc-cloud/test",
		Options: Options{Every: 5 * time.Millisecond, Timeout: 10 * time.Second, Backoff: time.Millisecond, Grace: 50 * time.Millisecond},
	}
	f.org = f.tenant()
	return f
}

// recorder writes events as the audit log does, but without their source.
type recorder struct{}

func (recorder) Record(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, action, targetID string, details map[string]any) error {
	text, err := json.Marshal(details)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO audit_events (id, organization_id, action, target_id, actor_type, details, created_at)
		VALUES ($1, $2, $3, $4, 'system', $5, now())`, uuid.Must(uuid.NewV7()), orgID, action, targetID, string(text))
	return err
}

// newBox returns a box with a key for each id; it encrypts with the first.
func newBox(t *testing.T, ids ...byte) *secret.Box {
	t.Helper()
	var keys []secret.Key
	for _, id := range ids {
		keys = append(keys, secret.Key{ID: id, Bytes: bytes.Repeat([]byte{id}, secret.KeySize)})
	}
	b, err := secret.New(keys[0], keys[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// exec runs a statement as the system and returns the number of rows.
func (f *fixture) exec(query string, args ...any) int64 {
	f.t.Helper()
	result, err := f.System.ExecContext(f.t.Context(), query, args...)
	if err != nil {
		f.t.Fatal(err)
	}
	n, _ := result.RowsAffected()
	return n
}

// text returns the only value of a query.
func (f *fixture) text(query string) (value string) {
	f.t.Helper()
	if err := f.System.GetContext(f.t.Context(), &value, query); err != nil {
		f.t.Fatal(err)
	}
	return value
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) tenant() uuid.UUID {
	f.t.Helper()
	org := uuid.New()
	f.exec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'x', $2, now())`, org, org.String())
	return org
}

// startSession inserts a running session, as the activity feed does.
func (f *fixture) startSession(org uuid.UUID) uuid.UUID {
	f.t.Helper()
	id := uuid.New()
	f.exec(`INSERT INTO activity_sessions (id, organization_id, profile_id, profile_name, machine_id, launch_id, browser_version, status, started_at)
		VALUES ($1, $2, gen_random_uuid(), 'Checkout', 'worker-1', gen_random_uuid(), 156, 'running', '2026-11-21T11:15:00.5+01:00')`, id, org)
	return id
}

func (f *fixture) endSession(id uuid.UUID) {
	f.t.Helper()
	f.exec(`UPDATE activity_sessions SET status = 'killed', end_reason = 'killed', ended_at = now() WHERE id = $1`, id)
}

// endpoint creates an endpoint for all events and returns it with its secret.
func (f *fixture) endpoint(url string) (Endpoint, string) {
	f.t.Helper()
	e, secret, err := f.Create(f.t.Context(), f.org, Fields{URL: url, Enabled: true})
	f.must(err)
	return e, secret
}

// run runs the service until the test ends, or until the returned function is called.
func (f *fixture) run() (stop func()) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	stop = func() {
		cancel()
		running.Wait()
	}
	f.t.Cleanup(stop)
	return stop
}

// deliveries returns all deliveries to an endpoint, the oldest first.
func (f *fixture) deliveries(id uuid.UUID) []Delivery {
	f.t.Helper()
	found, err := f.Deliveries(f.t.Context(), f.org, id, nil, page.Request{Page: 1, Limit: 100, SortBy: "createdAt"})
	f.must(err)
	return found.Items
}

// waitFor waits until the only delivery to an endpoint is in a state.
func (f *fixture) waitFor(id uuid.UUID, state State) (d Delivery) {
	f.t.Helper()
	testenv.Eventually(f.t, "the delivery is "+string(state), func() bool {
		all := f.deliveries(id)
		if len(all) == 1 {
			d = all[0]
		}
		return d.State == state
	})
	return d
}

// received is a request that a receiver got.
type received struct {
	header http.Header
	body   []byte
	event  body
}

// body is the body of a request.
type body struct {
	ID             uuid.UUID      `json:"id"`
	Type           string         `json:"type"`
	Timestamp      time.Time      `json:"timestamp"`
	OrganizationID uuid.UUID      `json:"organizationId"`
	Data           map[string]any `json:"data"`
}

// receiver is a server that records requests.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	requests []received
	answer   func(w http.ResponseWriter, r *http.Request, e body) // nil: 200
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	text, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	got := received{header: request.Header.Clone(), body: text}
	_ = json.Unmarshal(text, &got.event)
	r.mu.Lock()
	r.requests = append(r.requests, got)
	answer := r.answer
	r.mu.Unlock()
	if answer != nil {
		answer(w, request, got.event)
	}
}

func (r *receiver) setAnswer(answer func(w http.ResponseWriter, r *http.Request, e body)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// status returns an answer with a status.
func status(code int) func(http.ResponseWriter, *http.Request, body) {
	return func(w http.ResponseWriter, _ *http.Request, _ body) { w.WriteHeader(code) }
}

// verifies reports whether the library of the specification accepts a request with the
// secret.
func verifies(t *testing.T, r received, secret string) bool {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	return verifier.Verify(r.body, r.header) == nil
}

// assertFault checks the kind of an error.
func assertFault(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	if got := fault.From(err); got == nil || got.Kind != kind {
		t.Errorf("got %v, want a fault of kind %v", err, kind)
	}
}
