package license

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
)

// passTime bounds one pass of the reaper or the auditor.
const passTime = time.Minute

// RunReaper reaps about once in each interval, and audits about once in each
// AuditEvery, until ctx ends. It begins after ReapGrace: workers that could not
// report while the cloud was away come first. Every replica may run it: they share the work.
func (s *Service) RunReaper(ctx context.Context, interval time.Duration) {
	audited := s.opts.Clock.Now()
	pause := max(s.opts.ReapGrace, interval)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = interval/2 + rand.N(interval) // replicas drift apart
		s.pass(ctx, "reap", func(ctx context.Context) error {
			n, err := s.Reap(ctx)
			if n > 0 {
				s.logger.InfoContext(ctx, "lapsed slots reclaimed", "slots", n)
			}
			return err
		})
		if now := s.opts.Clock.Now(); now.Sub(audited) >= s.opts.AuditEvery {
			audited = now
			s.pass(ctx, "audit", func(ctx context.Context) error {
				_, err := s.Audit(ctx)
				return err
			})
		}
	}
}

func (s *Service) pass(ctx context.Context, name string, work func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, passTime)
	defer cancel()
	if err := work(ctx); err != nil && ctx.Err() != context.Canceled {
		s.logger.ErrorContext(ctx, "license pass failed", "pass", name, "error", err)
	}
}

// Audit compares each counter with the live rows, in one snapshot, logs and
// repairs every difference, and returns how many there were. There is none
// unless somebody changed the tables by hand, or this package is wrong.
func (s *Service) Audit(ctx context.Context) (int, error) {
	var drifted []struct {
		OrgID uuid.UUID `db:"org_id"`
		InUse int       `db:"in_use"`
		Live  int       `db:"live"`
	}
	err := s.db.SelectContext(ctx, &drifted, `
		WITH live AS (SELECT org_id, count(*) AS n FROM license_slots WHERE released_at IS NULL GROUP BY org_id)
		SELECT o.org_id, o.in_use, COALESCE(live.n, 0) AS live
		FROM license_org o LEFT JOIN live USING (org_id) WHERE o.in_use <> COALESCE(live.n, 0)`)
	if err != nil {
		return 0, fmt.Errorf("compare the license counters: %w", err)
	}
	for _, d := range drifted {
		s.logger.ErrorContext(ctx, "license counter drifted; repairing it", "org", d.OrgID, "counted", d.InUse, "live", d.Live)
		if err := s.recount(ctx, d.OrgID); err != nil {
			return len(drifted), err
		}
	}
	return len(drifted), nil
}

// recount locks the counter first and counts in a statement of its own, whose
// snapshot then holds every change that was counted. Changes under way wait for
// the counter, and then add themselves.
func (s *Service) recount(ctx context.Context, orgID uuid.UUID) error {
	return pg.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, `SELECT FROM license_org WHERE org_id = $1 FOR UPDATE`, orgID); err != nil {
			return fmt.Errorf("lock the license counter: %w", err)
		}
		_, err := tx.ExecContext(ctx, `
			UPDATE license_org SET in_use = (SELECT count(*) FROM license_slots WHERE org_id = $1 AND released_at IS NULL)
			WHERE org_id = $1`, orgID)
		if err != nil {
			return fmt.Errorf("repair the license counter: %w", err)
		}
		return nil
	})
}
