// Package retention forgets what has been kept long enough. It works on all
// organizations at once, in small steps that hold up nobody: each takes only
// rows that nobody else has locked, and a pause follows it. Any number of
// replicas may do so at the same time; they share the work.
package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// Periods is how long things are kept; 0 keeps them for ever.
type Periods struct {
	Feed    time.Duration // sessions of the feed, from their end
	Audit   time.Duration // audit events
	Mail    time.Duration // mails, from when they were sent or given up
	Contact time.Duration // messages of the contact form
	Slots   time.Duration // license events, machines that report no more, and released slots, which tell a late report of a start that its session is over
}

// Options tune a Service. Zero values mean the defaults.
type Options struct {
	Every time.Duration // how often to look; default 1 h
	Batch int           // rows of one step; default 1000
	Pause time.Duration // between two steps; default 100 ms
}

// Service forgets. Its pool must see the rows of all organizations.
type Service struct {
	DB      *sqlx.DB
	Logger  *slog.Logger
	Periods Periods
	Options Options
}

// passTimeout bounds one pass; the next one goes on.
const passTimeout = 15 * time.Minute

func (o Options) withDefaults() Options {
	if o.Every == 0 {
		o.Every = time.Hour
	}
	if o.Batch == 0 {
		o.Batch = 1000
	}
	if o.Pause == 0 {
		o.Pause = 100 * time.Millisecond
	}
	return o
}

// rule is what is old in one table: the rows whose time, when they came to
// their end, is longer ago than the period; null is no end. They are found by an
// indexed column that is never after that time. Where it is the id, that is of
// version 7 and so in the order of creation: the tables of the hot path need no
// index of their own for this. A row that is still needed stays.
type rule struct {
	table       string
	endColumn   string
	indexColumn string
	keepIf      string // a condition; may be empty
}

// The rules. A row that is still in use is none of them: a session that runs, a
// slot that is held, a mail that waits.
var (
	feed    = rule{table: "activity_sessions", endColumn: "ended_at", indexColumn: "started_at"}
	audit   = rule{table: "audit_events", endColumn: "created_at", indexColumn: "id"}
	mail    = rule{table: "mail_outbox", endColumn: "finished_at", indexColumn: "id"}
	contact = rule{table: "contact_messages", endColumn: "created_at", indexColumn: "id"}
	slots   = rule{table: "license_slots", endColumn: "released_at", indexColumn: "id"}
	events  = rule{table: "license_events", endColumn: "at", indexColumn: "id"}
	answers = rule{table: "idempotency_keys", endColumn: "expires_at", indexColumn: "expires_at"}

	// machines are read whole: an index by their time would be written with every
	// heartbeat, and there is one row for each.
	machines = rule{table: "license_machines", endColumn: "heartbeat_at", indexColumn: "heartbeat_at", keepIf: `EXISTS (
		SELECT FROM license_slots s WHERE s.organization_id = license_machines.organization_id
			AND s.machine_id = license_machines.machine_id AND s.released_at IS NULL)`}
)

// deleteQuery removes one batch of what is older than the period. The rows are found
// and locked first, those that somebody else has locked passed over, and then
// removed by where they are.
func (r rule) deleteQuery(period time.Duration, batch int) (query string, args []any) {
	const before = ` < clock_timestamp() - make_interval(secs => $1)`
	args, bound := []any{period.Seconds(), batch}, before
	if r.indexColumn == "id" {
		args, bound = append(args, idLowerBound(time.Now().Add(-period))), " < $3"
	}
	unneeded := ""
	if r.keepIf != "" {
		unneeded = " AND NOT " + r.keepIf
	}
	return fmt.Sprintf(`
		DELETE FROM %[1]s WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM %[1]s WHERE %[3]s%[4]s AND %[2]s%[5]s%[6]s
			ORDER BY %[3]s LIMIT $2 FOR UPDATE SKIP LOCKED))`, r.table, r.endColumn, r.indexColumn, bound, before, unneeded), args
}

// Run looks about once in each interval until ctx ends.
func (s *Service) Run(ctx context.Context) {
	every := s.Options.withDefaults().Every
	for pause := rand.N(every/60 + 1); ; pause = every/2 + rand.N(every) { // replicas drift apart
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pass, cancel := context.WithTimeout(ctx, passTimeout)
		_, err := s.DeleteExpired(pass)
		cancel()
		if err != nil && ctx.Err() == nil {
			s.Logger.ErrorContext(ctx, "forget what is old", "error", err)
		}
	}
}

// DeleteExpired removes everything that has been kept long enough, and returns how many
// rows of which table that were. It logs what it removed.
func (s *Service) DeleteExpired(ctx context.Context) (map[string]int64, error) {
	removed := map[string]int64{}
	var errs []error
	for _, work := range []struct {
		rule   rule
		period time.Duration
		always bool
	}{
		{rule: feed, period: s.Periods.Feed},
		{rule: audit, period: s.Periods.Audit},
		{rule: mail, period: s.Periods.Mail},
		{rule: contact, period: s.Periods.Contact},
		{rule: slots, period: s.Periods.Slots},
		{rule: events, period: s.Periods.Slots},
		{rule: machines, period: s.Periods.Slots},
		{rule: answers, always: true},
	} {
		if work.period <= 0 && !work.always {
			continue
		}
		began := time.Now()
		n, err := s.deleteBatches(ctx, work.rule, work.period)
		if n > 0 {
			removed[work.rule.table] = n
			s.Logger.InfoContext(ctx, "old rows removed",
				"table", work.rule.table, "rows", n, "olderThan", work.period, "duration", time.Since(began))
		}
		errs = append(errs, err)
	}
	return removed, errors.Join(errs...)
}

func (s *Service) deleteBatches(ctx context.Context, r rule, period time.Duration) (int64, error) {
	options := s.Options.withDefaults()
	var total int64
	for {
		query, args := r.deleteQuery(period, options.Batch)
		result, err := s.DB.ExecContext(ctx, query, args...)
		if err != nil {
			return total, fmt.Errorf("remove old rows of %s: %w", r.table, err)
		}
		n, err := result.RowsAffected()
		if err != nil {
			return total, fmt.Errorf("count the old rows of %s: %w", r.table, err)
		}
		if total += n; n < int64(options.Batch) {
			return total, nil
		}
		select {
		case <-ctx.Done():
			return total, ctx.Err()
		case <-time.After(options.Pause):
		}
	}
}

// idLowerBound is below every id of version 7 made at that time or later.
func idLowerBound(at time.Time) uuid.UUID {
	var id uuid.UUID
	ms := uint64(max(at.UnixMilli(), 0))
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	return id
}
