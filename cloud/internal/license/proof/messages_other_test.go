package proof_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
)

// reclaim is requested by a worker or run by the reaper.
type reclaim struct {
	key  string
	reap bool
}

func (q reclaim) steps() []step {
	lapse := func(m *model, a *answer) {
		n := m.expire(true)
		if a.verdict = "done"; q.reap {
			a.count = fmt.Sprintf("%d released", n)
		} else {
			a.count = fmt.Sprintf("%d released, %s", n, m.usage())
		}
	}
	if q.reap {
		return []step{lapse}
	}
	return []step{by(q.key, lapse)}
}

func (q reclaim) send(ctx context.Context, s *testEnv, r *replica) answer {
	if q.reap {
		n, err := r.Reap(ctx)
		if err != nil {
			return failed(err)
		}
		return answer{verdict: "done", count: fmt.Sprintf("%d released", n)}
	}
	caller, err := r.checks.Verify(ctx, s.secret(q.key))
	if err != nil {
		return failed(err)
	}
	got, err := r.Reclaim(ctx, caller.OrgID)
	if err != nil {
		return failed(err)
	}
	return answer{verdict: "done", count: fmt.Sprintf("%d released, %s", got.Released, count(got.Current, got.Limit))}
}

// limit changes the slot limit.
type limit struct{ value int }

func (q limit) steps() []step {
	return []step{func(m *model, a *answer) {
		if !m.exists {
			a.verdict = "gone"
			return
		}
		m.setLimit(q.value)
		a.verdict = "done"
	}}
}

func (q limit) send(ctx context.Context, s *testEnv, r *replica) answer {
	var newLimit *int
	if q.value >= 0 {
		newLimit = &q.value
	}
	return done(pg.InTx(ctx, r.db, func(tx *sqlx.Tx) error { return r.SetLimit(ctx, tx, s.org, newLimit) }))
}

// revoke revokes a key.
type revoke struct{ key string }

func (q revoke) steps() []step {
	return []step{func(m *model, a *answer) {
		if a.verdict = "done"; !m.keys[q.key] {
			a.verdict = "not found"
		}
		delete(m.keys, q.key)
	}}
}

func (q revoke) send(ctx context.Context, s *testEnv, r *replica) answer {
	return done(r.keys.Revoke(ctx, s.org, s.id(q.key)))
}

// remove removes the organization with all of its data.
type remove struct{}

func (remove) steps() []step {
	return []step{func(m *model, a *answer) { m.remove(); a.verdict = "done" }}
}

func (remove) send(ctx context.Context, s *testEnv, r *replica) answer {
	return done(pg.InTx(ctx, r.db, func(tx *sqlx.Tx) error {
		if err := r.EndOrganization(ctx, tx, s.org); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM organizations WHERE id = $1`, s.org)
		return err
	}))
}

// audit must never find a difference.
type audit struct{}

func (audit) steps() []step {
	return []step{func(_ *model, a *answer) { a.verdict = "done" }}
}

func (audit) send(ctx context.Context, _ *testEnv, r *replica) answer {
	n, err := r.Audit(ctx)
	if n > 0 {
		return answer{verdict: fmt.Sprintf("%d counters repaired", n)}
	}
	return done(err)
}

// list returns the overview with the stale flags.
type list struct{ key string }

func (q list) steps() []step {
	return []step{by(q.key, func(m *model, a *answer) {
		running, stale := 0, []string{}
		for name, s := range m.slots {
			if s.state == "running" {
				running++
				if s.lease <= m.now {
					stale = append(stale, string(name))
				}
			}
		}
		slices.Sort(stale)
		a.verdict = fmt.Sprintf("%s, %d running, stale %v", m.usage(), running, stale)
	})}
}

func (q list) send(ctx context.Context, s *testEnv, r *replica) answer {
	caller, err := r.checks.Verify(ctx, s.secret(q.key))
	if err != nil {
		return failed(err)
	}
	got, err := r.Sessions(ctx, caller.OrgID)
	if err != nil {
		return failed(err)
	}
	if got.Running+got.Reserved != got.Current || len(got.Sessions) != got.Running {
		return answer{verdict: fmt.Sprintf("%d running and %d reserved of %d, %d listed", got.Running, got.Reserved, got.Current, len(got.Sessions))}
	}
	stale := []string{}
	for _, row := range got.Sessions {
		if row.Stale {
			stale = append(stale, string(s.names([]uuid.UUID{row.SessionID})[0]))
		}
	}
	slices.Sort(stale)
	return answer{verdict: fmt.Sprintf("%s, %d running, stale %v", count(got.Current, got.Limit), got.Running, stale)}
}
