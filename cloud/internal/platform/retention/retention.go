// Package retention deletes old data of all organizations, in small batches with
// pauses that do not block others: each batch skips locked rows. Any number of
// replicas may run it concurrently; they share the work.
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

// Records is how long records without content are kept: sent and failed mails, expired
// access tokens, license events, silent machines, and released slots, which refuse late start reports of ended
// sessions and let abandoned sessions continue.
const Records = 30 * 24 * time.Hour

// Events is how long events and their deliveries are kept.
const Events = 7 * 24 * time.Hour

// Options configure a Service; zero values select the defaults.
type Options struct {
	Every time.Duration // interval between passes; default 1 h
	Batch int           // rows per batch; default 1000
	Pause time.Duration // between batches; default 100 ms

	Records time.Duration // how long records without content are kept; default Records
}

// Service deletes expired data. Its pool must see the rows of all organizations.
type Service struct {
	DB      *sqlx.DB
	Logger  *slog.Logger
	Period  time.Duration // of ended sessions, audit events and contact messages; 0 keeps them forever
	Options Options
}

// passTimeout bounds one pass; the next one continues.
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
	if o.Records == 0 {
		o.Records = Records
	}
	return o
}

// rule selects the expired rows of one table: those whose endColumn is older than the
// period; null means not ended. They are found by indexColumn, which is never after
// endColumn. If that is the id, its version 7 order is the order of creation, so
// tables of the hot path need no additional index. Rows that match keepIf are kept.
type rule struct {
	table       string
	endColumn   string
	indexColumn string
	keepIf      string // a condition; optional
}

// The rules. Rows in use never match: running sessions, held slots, queued mails.
var (
	feed    = rule{table: "activity_sessions", endColumn: "ended_at", indexColumn: "started_at"}
	audit   = rule{table: "audit_events", endColumn: "created_at", indexColumn: "id"}
	mail    = rule{table: "mail_outbox", endColumn: "finished_at", indexColumn: "id"}
	contact = rule{table: "contact_messages", endColumn: "created_at", indexColumn: "id"}
	slots   = rule{table: "license_slots", endColumn: "released_at", indexColumn: "id"}
	events  = rule{table: "license_events", endColumn: "at", indexColumn: "id"}
	tokens  = rule{table: "access_tokens", endColumn: "expires_at", indexColumn: "expires_at"}
	outbox  = rule{table: "events", endColumn: "created_at", indexColumn: "created_at"} // ids of reported events have another order
	sends   = rule{table: "webhook_deliveries", endColumn: "created_at", indexColumn: "id"}
	answers = rule{table: "idempotency_keys", endColumn: "expires_at", indexColumn: "expires_at"}

	// machines are read completely: an index on the time would be updated with every
	// heartbeat, and each machine has only one row.
	machines = rule{table: "license_machines", endColumn: "heartbeat_at", indexColumn: "heartbeat_at", keepIf: `EXISTS (
		SELECT FROM license_slots s WHERE s.organization_id = license_machines.organization_id
			AND s.machine_id = license_machines.machine_id AND s.released_at IS NULL)`}
)

// deleteQuery deletes one batch of rows older than the period. It finds and locks the
// rows first, skipping locked ones, and deletes them by ctid.
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

// Run deletes expired data about once per interval until ctx ends.
func (s *Service) Run(ctx context.Context) {
	every := s.Options.withDefaults().Every
	for pause := rand.N(every/60 + 1); ; pause = every/2 + rand.N(every) { // so that replicas do not run in lockstep
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pass, cancel := context.WithTimeout(ctx, passTimeout)
		_, err := s.DeleteExpired(pass)
		cancel()
		if err != nil && ctx.Err() == nil {
			s.Logger.ErrorContext(ctx, "failed to delete expired data", "error", err)
		}
	}
}

// DeleteExpired deletes all expired rows and returns their number by table. It logs
// what it deleted.
func (s *Service) DeleteExpired(ctx context.Context) (map[string]int64, error) {
	removed, records := map[string]int64{}, s.Options.withDefaults().Records
	var errs []error
	for _, work := range []struct {
		rule   rule
		period time.Duration
		always bool
	}{
		{rule: feed, period: s.Period},
		{rule: audit, period: s.Period},
		{rule: mail, period: records},
		{rule: contact, period: s.Period},
		{rule: slots, period: records},
		{rule: events, period: records},
		{rule: machines, period: records},
		{rule: tokens, period: records},
		{rule: outbox, period: Events},
		{rule: sends, period: Events},
		{rule: answers, always: true},
	} {
		if work.period <= 0 && !work.always {
			continue
		}
		began := time.Now()
		n, err := s.deleteBatches(ctx, work.rule, work.period)
		if n > 0 {
			removed[work.rule.table] = n
			s.Logger.InfoContext(ctx, "expired rows deleted",
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
			return total, fmt.Errorf("delete expired rows of %s: %w", r.table, err)
		}
		n, err := result.RowsAffected()
		if err != nil {
			return total, fmt.Errorf("count the deleted rows of %s: %w", r.table, err)
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

// idLowerBound returns an id below every version 7 id that was generated at that time
// or later.
func idLowerBound(t time.Time) uuid.UUID {
	var id uuid.UUID
	ms := uint64(max(t.UnixMilli(), 0))
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	return id
}
