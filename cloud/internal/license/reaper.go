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

// RunReaper reaps about once in each interval, and audits about once in each
// AuditEvery, until ctx ends. It gives nothing up in the ReapGrace: workers that
// could not report while the cloud or its database was away come first. Every
// replica may run it: they share the work.
func (s *Service) RunReaper(ctx context.Context, interval time.Duration) {
	audited := s.opts.Clock.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval/2 + rand.N(interval)): // replicas drift apart
		}
		s.runPass(ctx, "reap", s.reapExpired)
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

// reapExpired reaps, and forgets boots that are heard of no more, but not in the
// grace, which begins again while the database does not say what has lapsed.
func (s *Service) reapExpired(ctx context.Context) error {
	orgs, err := s.expiredOrgs(ctx)
	if err != nil {
		s.grace.begin()
	}
	if err != nil || s.grace.active() {
		return err
	}
	n, err := s.reap(ctx, orgs)
	if n > 0 {
		s.logger.InfoContext(ctx, "lapsed slots reclaimed", "slots", n)
	}
	_, late := s.deleteStaleBoots(ctx)
	return errors.Join(err, late)
}

func (s *Service) runPass(ctx context.Context, name string, work func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	if err := work(ctx); err != nil && ctx.Err() != context.Canceled {
		s.logger.ErrorContext(ctx, "license pass failed", "pass", name, "error", err)
	}
}

// logTotals tells what this replica did since it started.
func (s *Service) logTotals(ctx context.Context) {
	t := s.Totals()
	s.logger.InfoContext(ctx, "license totals", "refused", t.Refused, "lapsed", t.Lapsed, "omitted", t.Omitted,
		"adopted", t.Adopted, "duplicates", t.Duplicates, "repaired", t.Repaired)
}

// gracePeriod is a time in which no session is given up, although its lease may be
// over: the workers could not report, and need a moment to do so. It begins with
// the process, and again whenever the database does not answer.
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

// totals count what this replica did since it started.
type totals struct {
	refused, lapsed, omitted, adopted, duplicates, repaired atomic.Int64
}

// Totals are what a replica did since it started.
type Totals struct {
	Refused    int64 // launches and starts without a slot
	Lapsed     int64 // slots given back because nobody was heard of them
	Omitted    int64 // slots given back because a heartbeat left them out
	Adopted    int64 // slots that count again
	Duplicates int64 // machine ids found to be used twice
	Repaired   int64 // counters put right
}

// Totals returns what this replica did since it started.
func (s *Service) Totals() Totals {
	t := &s.totals
	return Totals{
		Refused: t.refused.Load(), Lapsed: t.lapsed.Load(), Omitted: t.omitted.Load(), Adopted: t.adopted.Load(),
		Duplicates: t.duplicates.Load(), Repaired: t.repaired.Load(),
	}
}
