package license

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/browser-svc/svc/shared/clock"
)

// passTimeout bounds one pass of the reaper or the auditor.
const passTimeout = time.Minute

// RunReaper reaps about once per interval and audits about once per AuditEvery, until
// ctx ends. During ReapGrace no session expires, so that workers that could not reach
// the cloud or its database can report first. Every replica may run it; they share the
// work.
func (s *Service) RunReaper(ctx context.Context, interval time.Duration) {
	audited := s.opts.Clock.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval/2 + rand.N(interval)): // so that replicas do not run in lockstep
		}
		s.runPass(ctx, "reap", func(ctx context.Context) error {
			err := s.reapExpired(ctx)
			if err == nil {
				s.reapedAt.Store(s.opts.Clock.Now().UnixNano())
			}
			return err
		})
		if now := s.opts.Clock.Now(); now.Sub(audited) >= s.opts.AuditEvery {
			audited = now
			s.runPass(ctx, "audit", func(ctx context.Context) error {
				_, err := s.Audit(ctx)
				return err
			})
			s.logTotals(ctx)
		}
	}
}

// reapExpired reaps and deletes stale boots, except during the grace period. If the
// database does not answer or accepts no changes, the grace period starts again.
func (s *Service) reapExpired(ctx context.Context) error {
	orgs, err := s.expiredOrgs(ctx)
	if err != nil {
		s.grace.begin()
	}
	if err != nil || s.grace.active() {
		return err
	}
	n, err := s.reap(ctx, orgs)
	if err != nil && n == 0 {
		s.grace.begin() // the database answers but accepts no changes, so workers cannot report either
	}
	if n > 0 {
		s.logger.InfoContext(ctx, "expired slots reclaimed", "slots", n)
	}
	_, late := s.deleteSupersededBoots(ctx)
	return errors.Join(err, late, s.dropAllStale(ctx))
}

func (s *Service) runPass(ctx context.Context, name string, work func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	if err := work(ctx); err != nil && ctx.Err() != context.Canceled {
		s.logger.ErrorContext(ctx, "license pass failed", "pass", name, "error", err)
	}
}

// logTotals logs the totals of this replica.
func (s *Service) logTotals(ctx context.Context) {
	t := s.Totals()
	s.logger.InfoContext(ctx, "license totals", "refused", t.Refused, "lapsed", t.Lapsed, "omitted", t.Omitted,
		"adopted", t.Adopted, "duplicates", t.Duplicates, "repaired", t.Repaired)
}

// ReapedAt returns when the reaper of this replica last succeeded; the zero time if it
// has not yet.
func (s *Service) ReapedAt() time.Time {
	if nanos := s.reapedAt.Load(); nanos != 0 {
		return time.Unix(0, nanos)
	}
	return time.Time{}
}

// gracePeriod is a time in which no session expires, although its lease may be over:
// the workers could not report and need time to do so. It starts with the process, and
// again when the database does not answer.
type gracePeriod struct {
	clock    clock.Clock
	duration time.Duration

	mu      sync.Mutex
	started time.Time
}

func (g *gracePeriod) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.started = g.clock.Now()
}

func (g *gracePeriod) active() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	age := g.clock.Now().Sub(g.started)
	return age >= 0 && age < g.duration
}

// totals are the counters of this replica since its start.
type totals struct {
	refused, lapsed, omitted, adopted, duplicates, repaired atomic.Int64
}

// Totals are the counters of a replica since its start.
type Totals struct {
	Refused    int64 // launches and starts that got no slot
	Lapsed     int64 // slots released because their lease expired
	Omitted    int64 // slots released because a heartbeat omitted them
	Adopted    int64 // released slots that a heartbeat restored
	Duplicates int64 // machine ids found in use by several workers
	Repaired   int64 // counters repaired by the audit
}

// Totals returns the counters of this replica since its start.
func (s *Service) Totals() Totals {
	t := &s.totals
	return Totals{
		Refused: t.refused.Load(), Lapsed: t.lapsed.Load(), Omitted: t.omitted.Load(), Adopted: t.adopted.Load(),
		Duplicates: t.duplicates.Load(), Repaired: t.repaired.Load(),
	}
}
