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
	maxConnsPerOrg = 4               // connections per organization
	maxConnWait    = 5 * time.Second // maximum wait for one of them
)

// orgPool is the pool for statements that are not batched. Each organization uses at
// most maxConnsPerOrg of its connections, so that slow or blocked calls of one
// organization do not affect the others. Calls must not be nested.
type orgPool struct {
	db *sqlx.DB // for statements across organizations

	mu   sync.Mutex
	orgs map[uuid.UUID]*orgConns // organizations with a call in progress
}

// orgConns limits the connections of one organization.
type orgConns struct {
	slots chan struct{}
	calls int // calls that have a connection or wait for one
}

func newOrgPool(db *sqlx.DB) *orgPool { return &orgPool{db: db, orgs: map[uuid.UUID]*orgConns{}} }

// get runs a statement whose first argument is the organization, and reads one row.
func (t *orgPool) get(ctx context.Context, stmt *sqlx.Stmt, dest any, orgID uuid.UUID, args ...any) error {
	return t.run(ctx, orgID, func() error { return stmt.GetContext(ctx, dest, append([]any{orgID}, args...)...) })
}

// tx runs fn in a transaction, as pg.InTx does.
func (t *orgPool) tx(ctx context.Context, orgID uuid.UUID, fn func(tx *sqlx.Tx) error) error {
	return t.run(ctx, orgID, func() error { return pg.InTx(ctx, t.db, fn) })
}

// snapshot runs fn in a read-only transaction with one snapshot of the database.
func (t *orgPool) snapshot(ctx context.Context, orgID uuid.UUID, fn func(tx *sqlx.Tx) error) error {
	return t.run(ctx, orgID, func() error {
		tx, err := t.db.BeginTxx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
		if err != nil {
			return fmt.Errorf("begin a snapshot: %w", err)
		}
		defer tx.Rollback() // read-only
		return fn(tx)
	})
}

// run runs fn once a connection of the organization is free. It returns Unavailable if
// that takes longer than maxConnWait.
func (t *orgPool) run(ctx context.Context, orgID uuid.UUID, fn func() error) error {
	s := t.addCall(orgID)
	defer t.removeCall(orgID, s)
	if err := s.acquire(ctx); err != nil {
		return err
	}
	defer func() { <-s.slots }()
	return fn()
}

func (s *orgConns) acquire(ctx context.Context) error {
	select {
	case s.slots <- struct{}{}:
		return nil
	default:
	}
	late := time.NewTimer(maxConnWait)
	defer late.Stop()
	select {
	case s.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-late.C:
		busy := fault.New(fault.Unavailable, "Too many concurrent requests of this organization. Try again.")
		busy.RetryAfter = time.Second
		return busy
	}
}

func (t *orgPool) addCall(orgID uuid.UUID) *orgConns {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.orgs[orgID]
	if s == nil {
		s = &orgConns{slots: make(chan struct{}, maxConnsPerOrg)}
		t.orgs[orgID] = s
	}
	s.calls++
	return s
}

func (t *orgPool) removeCall(orgID uuid.UUID, s *orgConns) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.calls--; s.calls == 0 {
		delete(t.orgs, orgID)
	}
}
