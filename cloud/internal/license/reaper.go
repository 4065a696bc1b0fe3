package license

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
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
