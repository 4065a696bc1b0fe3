// Package usage counts the requests of each organization and reports the remaining
// requests of its apiRpmLimit and apiRphLimit. Both limits are for display only; no
// request is refused (specification 8).
//
// Each replica counts in memory and adds its counts to the database a few times a
// minute, so the counts of other replicas may be up to Interval old. A window is a
// minute or an hour of the clock, in UTC.
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

// Interval is how often counts are written. It divides a minute, so that each write
// belongs to one window.
const Interval = 15 * time.Second

// Limits returns the request limits of a subscription.
type Limits interface {
	// RequestLimits returns the limits per minute and per hour; nil is unlimited.
	RequestLimits(ctx context.Context, q sqlx.QueryerContext, orgID uuid.UUID) (perMinute, perHour *int, err error)
}

// Options configure a Service. All fields but MaxOrganizations are required.
type Options struct {
	DB     *sqlx.DB // sees one organization at a time
	System *sqlx.DB // sees all organizations
	Limits Limits
	Clock  clock.Clock
	Logger *slog.Logger
	// MaxOrganizations bounds, approximately, the organizations that are counted at the
	// same time; default 10,000. Requests of further organizations are not counted until
	// another one was idle for an Interval.
	MaxOrganizations int
}

// Service counts the requests of all organizations. It is safe for concurrent use.
// Close writes the remaining counts.
type Service struct {
	opts    Options
	shards  [shardCount]shard
	dropped atomic.Int64 // requests since the last write that were not counted
}

// New returns a Service without counts.
func New(opts Options) *Service {
	if opts.MaxOrganizations == 0 {
		opts.MaxOrganizations = 10_000
	}
	return &Service{opts: opts}
}

// Window is the usage of one minute or one hour.
type Window struct {
	Limit *int  // nil is unlimited
	Used  int64 // requests so far
	Ends  time.Time
}

// Remaining returns the remaining requests, at least zero; nil without a limit.
func (w Window) Remaining() *int64 {
	if w.Limit == nil {
		return nil
	}
	remaining := max(0, int64(*w.Limit)-w.Used)
	return &remaining
}

// Usage is the usage of the current minute and hour.
type Usage struct{ Minute, Hour Window }

// Count counts a request of the organization. For an organization that is already
// counted it takes no lock and does not allocate.
func (s *Service) Count(orgID uuid.UUID) {
	if c := s.counter(orgID); c != nil {
		c.pending.Add(1)
		return
	}
	s.dropped.Add(1)
}

// Read returns the current usage of the organization from the database, including
// unwritten counts of this replica.
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

// Recent is like Read, but the database values may be up to an Interval old.
func (s *Service) Recent(ctx context.Context, orgID uuid.UUID) (Usage, error) {
	c := s.counter(orgID)
	if c == nil {
		return s.Read(ctx, orgID)
	}
	now, last := s.opts.Clock.Now(), c.cached.Load()
	if last != nil && now.Sub(last.readAt) < Interval {
		return last.usage(now, c.pending.Load()), nil
	}
	if last != nil && !c.refreshing.CompareAndSwap(false, true) { // another request is reading it
		return last.usage(now, c.pending.Load()), nil
	}
	defer c.refreshing.Store(false)
	return s.Read(ctx, orgID)
}
