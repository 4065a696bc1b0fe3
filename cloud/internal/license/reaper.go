package license

import (
	"context"
	"math/rand/v2"
	"time"
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
		s.pass(ctx, "late boots", func(ctx context.Context) error {
			_, err := s.forgetLateBoots(ctx)
			return err
		})
		if now := s.opts.Clock.Now(); now.Sub(audited) >= s.opts.AuditEvery {
			audited = now
			s.pass(ctx, "audit", func(ctx context.Context) error {
				_, err := s.Audit(ctx)
				return err
			})
			s.logTotals(ctx)
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

// logTotals tells what this replica did since it started.
func (s *Service) logTotals(ctx context.Context) {
	t := s.Totals()
	s.logger.InfoContext(ctx, "license totals", "refused", t.Refused, "lapsed", t.Lapsed, "omitted", t.Omitted,
		"adopted", t.Adopted, "duplicates", t.Duplicates, "repaired", t.Repaired)
}
