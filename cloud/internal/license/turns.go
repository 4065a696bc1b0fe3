package license

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

const (
	turnsEach = 4               // connections that an organization has at most
	turnTime  = 5 * time.Second // how long a call waits for one of them
)

// turns is the pool for what is done for one call alone. Each organization has
// turnsEach of its connections at most, so that one whose calls are slow, or wait
// for a row of its own, leaves the others theirs. No turn is taken within another.
type turns struct {
	all *sqlx.DB // for what works across organizations

	mu   sync.Mutex
	orgs map[uuid.UUID]*seats // of those with a call under way
}

// seats are an organization's turns.
type seats struct {
	taken chan struct{}
	calls int // that have a turn or wait for one
}

func newTurns(db *sqlx.DB) *turns { return &turns{all: db, orgs: map[uuid.UUID]*seats{}} }

// get runs a statement whose first argument is the organization, for one row.
func (t *turns) get(ctx context.Context, stmt *sqlx.Stmt, dest any, orgID uuid.UUID, args ...any) error {
	return t.take(ctx, orgID, func() error { return stmt.GetContext(ctx, dest, append([]any{orgID}, args...)...) })
}

// tx runs fn in a transaction, as pg.InTx does.
func (t *turns) tx(ctx context.Context, orgID uuid.UUID, fn func(tx *sqlx.Tx) error) error {
	return t.take(ctx, orgID, func() error { return pg.InTx(ctx, t.all, fn) })
}

// snapshot runs fn, which only reads, on one moment of the database.
func (t *turns) snapshot(ctx context.Context, orgID uuid.UUID, fn func(tx *sqlx.Tx) error) error {
	return t.take(ctx, orgID, func() error {
		tx, err := t.all.BeginTxx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
		if err != nil {
			return fmt.Errorf("begin a snapshot: %w", err)
		}
		defer tx.Rollback() // it only reads
		return fn(tx)
	})
}

// take runs fn when it is the organization's turn. It returns Unavailable when
// that does not come in time.
func (t *turns) take(ctx context.Context, orgID uuid.UUID, fn func() error) error {
	s := t.enter(orgID)
	defer t.leave(orgID, s)
	if err := s.sit(ctx); err != nil {
		return err
	}
	defer func() { <-s.taken }()
	return fn()
}

func (s *seats) sit(ctx context.Context) error {
	select {
	case s.taken <- struct{}{}:
		return nil
	default:
	}
	late := time.NewTimer(turnTime)
	defer late.Stop()
	select {
	case s.taken <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-late.C:
		busy := fault.New(fault.Unavailable, "Too many requests of this organization at once.")
		busy.RetryAfter = time.Second
		return busy
	}
}

func (t *turns) enter(orgID uuid.UUID) *seats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.orgs[orgID]
	if s == nil {
		s = &seats{taken: make(chan struct{}, turnsEach)}
		t.orgs[orgID] = s
	}
	s.calls++
	return s
}

func (t *turns) leave(orgID uuid.UUID, s *seats) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.calls--; s.calls == 0 {
		delete(t.orgs, orgID)
	}
}
