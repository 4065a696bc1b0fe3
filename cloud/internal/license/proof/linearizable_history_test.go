package proof_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// limiter grants and releases slots: the accounting, or a deliberately broken one.
// After Close no call is in progress.
type limiter interface {
	Authorize(ctx context.Context, req license.Request) (license.Grant, error)
	End(ctx context.Context, report license.EndReport) (license.Session, error)
	Close() error
}

// tenant is an organization of the recorder, with what its clients know of it in this
// era.
type tenant struct {
	org   uuid.UUID
	limit int

	mu       sync.Mutex
	sessions []uuid.UUID
	slots    []map[uuid.UUID]int // the ids that each session's slot had, numbered
	held     []int               // sessions with a slot that no client is ending
}

// historyRecorder records the concurrent calls of clients to several replicas of a
// limiter, and the answers.
type historyRecorder struct {
	t       *testing.T
	db      *sqlx.DB
	pools   []*sqlx.DB
	open    func(db *sqlx.DB) limiter
	clients int
	leaving int // percentage of cancelled authorize calls
	tenants []*tenant
	began   time.Time
	profile uuid.UUID

	mu      sync.Mutex
	history []porcupine.Operation
	started atomic.Int64 // without the operations that frame an era
	unknown atomic.Int64
}

// newHistoryRecorder creates organizations with 5 to 20 slots on its own database.
func newHistoryRecorder(t *testing.T, clients, orgs int, open func(*sqlx.DB) limiter) *historyRecorder {
	t.Helper()
	dsn := dbtest.NewDSN(t)
	h := &historyRecorder{t: t, db: dbtest.Open(t, dsn, pg.Options{}), open: open, clients: clients, leaving: 4, began: time.Now(), profile: uuid.New()}
	for range 3 {
		h.pools = append(h.pools, dbtest.Open(t, dsn, pg.Options{MaxOpen: 10}))
	}
	for i := range orgs {
		own := &tenant{org: uuid.Must(uuid.NewV7()), limit: 5 + i*15/max(orgs-1, 1)}
		h.db.MustExec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Test', $2, now())`, own.org, own.org.String())
		h.db.MustExec(`INSERT INTO license_org (organization_id, max_slots) VALUES ($1, $2)`, own.org, own.limit)
		h.tenants = append(h.tenants, own)
	}
	return h
}

// era records about n operations between two idle moments, at which the database state
// is recorded. It opens and closes the replicas.
func (h *historyRecorder) era(number, n int) {
	h.t.Helper()
	for i, own := range h.tenants {
		own.sessions, own.slots, own.held = nil, nil, nil
		h.frame(number, i, begins)
	}
	var replicas []limiter
	for _, pool := range h.pools {
		replicas = append(replicas, h.open(pool))
	}
	until := h.started.Load() + int64(n)
	first := len(h.history)
	var group sync.WaitGroup
	for client := range h.clients {
		group.Go(func() {
			for h.started.Load() < until && !h.t.Failed() {
				h.step(replicas[client%len(replicas)], client, number, rand.IntN(len(h.tenants)))
			}
		})
	}
	group.Wait()
	for _, s := range replicas {
		if err := s.Close(); err != nil {
			h.t.Error(err)
		}
	}
	quiet := h.now()
	for i := range h.history[first:] {
		if op := &h.history[first+i]; op.Return == 0 { // cancelled: it took effect before now, if at all
			op.Return = quiet
		}
	}
	for i := range h.tenants {
		h.frame(number, i, settles)
	}
}

// step runs one operation in an organization.
func (h *historyRecorder) step(s limiter, client, era, tenant int) {
	own := h.tenants[tenant]
	own.mu.Lock()
	q := operationInput{part: partition{era, tenant}, limit: own.limit, reason: license.Idle}
	if rand.IntN(2) == 0 {
		q.reason = license.Crash
	}
	dice := rand.IntN(100)
	switch recent := min(len(own.sessions), 6); {
	case dice < 6 && recent > 0: // in any state
		q.what, q.session = authorizes, len(own.sessions)-1-rand.IntN(recent)
	case dice < 12 && recent > 0:
		q.what, q.session = ends, len(own.sessions)-1-rand.IntN(recent)
	case dice < 14:
		q.what, q.session = ends, own.newSession()
	case dice < 55 && len(own.held) > 0:
		i := rand.IntN(len(own.held))
		q.what, q.session = ends, own.held[i]
		own.held = append(own.held[:i], own.held[i+1:]...)
	default:
		q.what, q.session, q.leaves = authorizes, own.newSession(), rand.IntN(100) < h.leaving
	}
	own.mu.Unlock()
	if q.what == ends {
		h.end(s, client, own, q)
	} else {
		h.authorize(s, client, own, q)
	}
}

func (own *tenant) newSession() int {
	own.sessions = append(own.sessions, uuid.Must(uuid.NewV7()))
	own.slots = append(own.slots, map[uuid.UUID]int{})
	return len(own.sessions) - 1
}

// number returns the number of a slot among those of its session.
func (own *tenant) number(session int, slot uuid.UUID) int {
	known, ok := own.slots[session][slot]
	if !ok {
		known = len(own.slots[session])
		own.slots[session][slot] = known
	}
	return known
}

func (h *historyRecorder) authorize(s limiter, client int, own *tenant, q operationInput) {
	ctx, cancel := h.t.Context(), context.CancelFunc(func() {})
	if q.leaves {
		ctx, cancel = context.WithTimeout(ctx, rand.N(3*time.Millisecond))
	}
	defer cancel()
	own.mu.Lock()
	session := own.sessions[q.session]
	own.mu.Unlock()
	called := h.now()
	grant, err := s.Authorize(ctx, license.Request{
		OrgID: own.org, KeyID: own.org, MachineID: "worker-1", BootID: own.org, SessionID: session, ProfileID: &h.profile,
	})
	returned := h.now()
	if q.leaves && ctx.Err() != nil && err != nil {
		h.unknown.Add(1)
		h.record(client, q, operationOutput{}, called, 0)
		q.what = undoes // now or later, and only if it took something
		h.write(client, q, operationOutput{}, called, 0)
		return
	}
	q.leaves = false
	a := operationOutput{current: grant.Current}
	own.mu.Lock()
	defer own.mu.Unlock()
	switch {
	case fault.Is(err, fault.Conflict):
		a.conflict = true
	case err != nil || grant.Limit == nil || *grant.Limit != own.limit:
		h.t.Errorf("authorize: %+v, %v", grant, err)
	case grant.Allowed:
		a.granted, a.slot = true, own.number(q.session, grant.SlotID)
		own.held = append(own.held, q.session)
	}
	h.record(client, q, a, called, returned)
}

// end reports the end of a session until it is acknowledged, like workers do: it takes
// effect once, between the first call and the last answer.
func (h *historyRecorder) end(s limiter, client int, own *tenant, q operationInput) {
	own.mu.Lock()
	report := license.EndReport{OrgID: own.org, ProfileID: h.profile, SessionID: own.sessions[q.session], EndReason: q.reason}
	own.mu.Unlock()
	ctx, cancel := h.t.Context(), context.CancelFunc(func() {})
	if rand.IntN(25) == 0 {
		ctx, cancel = context.WithTimeout(ctx, rand.N(2*time.Millisecond))
	}
	defer cancel()
	called := h.now()
	session, err := s.End(ctx, report)
	if err != nil && ctx.Err() != nil {
		h.unknown.Add(1)
		session, err = s.End(h.t.Context(), report)
	}
	returned := h.now()
	if err != nil || session.EndReason == nil {
		h.t.Errorf("end: %+v, %v", session, err)
		return
	}
	a := operationOutput{reason: *session.EndReason, slot: none}
	own.mu.Lock()
	if session.SlotID != nil {
		a.slot = own.number(q.session, *session.SlotID)
	}
	own.mu.Unlock()
	h.record(client, q, a, called, returned)
}

// frame records the database state of an organization.
func (h *historyRecorder) frame(era, tenant int, what action) {
	h.t.Helper()
	own := h.tenants[tenant]
	var rows []struct {
		ID        uuid.UUID `db:"id"`
		SessionID uuid.UUID `db:"session_id"`
	}
	a := operationOutput{live: map[int]int{}}
	err := errors.Join(h.db.Get(&a.current, `SELECT in_use FROM license_org WHERE organization_id = $1`, own.org),
		h.db.Select(&rows, `SELECT id, session_id FROM license_slots WHERE organization_id = $1 AND released_at IS NULL`, own.org))
	if err != nil {
		h.t.Fatal(err)
	}
	known := map[uuid.UUID]int{}
	for i, session := range own.sessions {
		known[session] = i
	}
	for _, row := range rows {
		i, ok := known[row.SessionID]
		if !ok { // of the era before
			i = own.newSession()
			own.sessions[i] = row.SessionID
			own.held = append(own.held, i)
		}
		a.live[i] = own.number(i, row.ID)
	}
	now := h.now()
	h.write(h.clients, operationInput{part: partition{era, tenant}, what: what, limit: own.limit}, a, now, now)
}

func (h *historyRecorder) now() int64 { return int64(time.Since(h.began)) }

func (h *historyRecorder) record(client int, q operationInput, a operationOutput, called, returned int64) {
	h.started.Add(1)
	h.write(client, q, a, called, returned)
}

func (h *historyRecorder) write(client int, q operationInput, a operationOutput, called, returned int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.history = append(h.history, porcupine.Operation{ClientId: client, Input: q, Output: a, Call: called, Return: returned})
}

// recorded returns the verdict on a history of n operations.
func (h *historyRecorder) recorded(n, eraSize int, judgeFor time.Duration) (verdict porcupine.CheckResult, story string) {
	h.t.Helper()
	for era := 0; int(h.started.Load()) < n && !h.t.Failed(); era++ {
		h.era(era, eraSize)
	}
	took := time.Since(h.began)
	began := time.Now()
	verdict = porcupine.CheckOperationsTimeout(limiterModel(), h.history, judgeFor)
	return verdict, fmt.Sprintf("%d operations of %d clients in %d organizations over %d replicas in %s, %d of them of callers who left: %s after %s",
		h.started.Load(), h.clients, len(h.tenants), len(h.pools), took.Round(time.Millisecond), h.unknown.Load(), verdict, time.Since(began).Round(time.Millisecond))
}
