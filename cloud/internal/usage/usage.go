// Package usage counts the requests that act on each organization, and tells how
// many are left of its apiRpmLimit and apiRphLimit. Both limits are for display
// only: nothing is refused for them (specification 8).
//
// Each replica counts in memory and adds its counts to the database a few times
// a minute, so the numbers of other replicas are up to Interval old. A window is
// the minute or the hour of the clock, in UTC.
package usage

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/clock"
)

// Interval is how often counts are written. It divides a minute, so that what is
// written belongs to one window.
const Interval = 15 * time.Second

// Limits knows how many requests the subscription of an organization includes.
type Limits interface {
	// RequestLimits returns the limits for each minute and each hour; nil is
	// unlimited.
	RequestLimits(ctx context.Context, q sqlx.QueryerContext, orgID uuid.UUID) (perMinute, perHour *int, err error)
}

// Options are what a Service needs; all but MaxOrganizations are required.
type Options struct {
	DB     *sqlx.DB // sees one organization at a time
	System *sqlx.DB // sees all organizations
	Limits Limits
	Clock  clock.Clock
	Logger *slog.Logger
	// MaxOrganizations bounds the organizations that are counted at the same time, about;
	// default 10,000. Requests of further ones are not counted, until one of the
	// others has been idle for an Interval.
	MaxOrganizations int
}

// Service counts the requests of all organizations. It is safe for concurrent
// use. Close writes what Run has not.
type Service struct {
	opts    Options
	shards  [shardCount]shard
	dropped atomic.Int64 // requests that were not counted since the last write
}

// New returns a Service that has counted nothing.
func New(opts Options) *Service {
	if opts.MaxOrganizations == 0 {
		opts.MaxOrganizations = 10_000
	}
	return &Service{opts: opts}
}

// Window is the use of one minute or one hour.
type Window struct {
	Limit *int  // nil is unlimited
	Used  int64 // requests so far
	Ends  time.Time
}

// Remaining is how many requests are left of the limit, never below zero; nil
// without a limit.
func (w Window) Remaining() *int64 {
	if w.Limit == nil {
		return nil
	}
	left := max(0, int64(*w.Limit)-w.Used)
	return &left
}

// Usage is the use of the minute and of the hour that run.
type Usage struct{ Minute, Hour Window }

// Count counts a request that acts on the organization. It takes no lock and
// allocates nothing for an organization that is counted already.
func (s *Service) Count(orgID uuid.UUID) {
	if c := s.counter(orgID); c != nil {
		c.pending.Add(1)
		return
	}
	s.dropped.Add(1)
}

// Read returns the use of the organization, as the database has it now and with
// what this replica has not written yet.
func (s *Service) Read(ctx context.Context, orgID uuid.UUID) (Usage, error) {
	found, err := s.load(ctx, orgID)
	if err != nil {
		return Usage{}, err
	}
	var pending int64
	if c := s.counter(orgID); c != nil {
		c.cached.Store(&found)
		pending = c.pending.Load()
	}
	return found.usage(s.opts.Clock.Now(), pending), nil
}

// Recent is Read with what the database had at most an Interval ago.
func (s *Service) Recent(ctx context.Context, orgID uuid.UUID) (Usage, error) {
	c := s.counter(orgID)
	if c == nil {
		return s.Read(ctx, orgID)
	}
	now, last := s.opts.Clock.Now(), c.cached.Load()
	if last != nil && now.Sub(last.at) < Interval {
		return last.usage(now, c.pending.Load()), nil
	}
	if last != nil && !c.refreshing.CompareAndSwap(false, true) { // somebody else reads it
		return last.usage(now, c.pending.Load()), nil
	}
	defer c.refreshing.Store(false)
	return s.Read(ctx, orgID)
}
