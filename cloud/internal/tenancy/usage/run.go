package usage

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Run writes the counts at the end of each Interval until ctx ends.
func (s *Service) Run(ctx context.Context) {
	for {
		now := s.opts.Clock.Now()
		next := now.Truncate(Interval).Add(Interval)
		timer := time.NewTimer(next.Sub(now))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if err := s.write(ctx, next.Add(-time.Nanosecond)); err != nil && ctx.Err() == nil {
			s.opts.Logger.ErrorContext(ctx, "failed to write request counts", "error", err)
		}
		if n := s.dropped.Swap(0); n > 0 {
			s.opts.Logger.WarnContext(ctx, "too many organizations; requests not counted", "requests", n)
		}
	}
}

// Close writes the remaining counts. Call it after Run has returned.
func (s *Service) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	return s.write(ctx, s.opts.Clock.Now())
}

// write writes all counts to the windows that contain the time, and removes idle
// counters. Counts that can't be written are kept for the next write.
func (s *Service) write(ctx context.Context, now time.Time) error {
	var errs []error
	var ids []uuid.UUID
	for i := range s.shards {
		idle := map[uuid.UUID]bool{}
		for id, c := range s.shards[i].all() {
			if c.pending.Load() > 0 {
				ids = append(ids, id)
			} else if read := c.cached.Load(); read == nil || now.Sub(read.readAt) >= Interval {
				idle[id] = true
			}
		}
		if len(idle) > 0 {
			s.shards[i].forget(idle)
		}
	}
	for batch := range slices.Chunk(ids, maxWriteBatch) {
		errs = append(errs, s.writeBatch(ctx, batch, now))
	}
	return errors.Join(errs...)
}

func (s *Service) writeBatch(ctx context.Context, ids []uuid.UUID, now time.Time) error {
	counters, requests := make(map[uuid.UUID]*counter, len(ids)), make([]int64, len(ids))
	for i, id := range ids {
		c := s.shards[id[15]].all()[id] // only forget removes counters, and it does not run concurrently
		counters[id], requests[i] = c, c.pending.Load()
	}
	rows, err := s.add(ctx, ids, requests, now)
	if err != nil {
		return err
	}
	for _, r := range rows {
		c := counters[r.OrgID]
		if last := c.cached.Load(); last != nil {
			c.cached.Store(&cachedRow{readAt: last.readAt, row: r, perMinute: last.perMinute, perHour: last.perHour})
		}
	}
	for i, id := range ids {
		counters[id].pending.Add(-requests[i])
	}
	return nil
}
