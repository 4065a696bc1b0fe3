package license

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/clock"
)

const (
	coalesceInterval = time.Second      // how long refusals are collected before a write
	refusalsTimeout  = 10 * time.Second // bounds one write
	maxRefusals      = 5000             // queued events; further ones are counted and dropped
	maxBySession     = 20               // per organization with their session; further ones are coalesced by machine
	maxByMachine     = 40               // per organization; all further ones are coalesced
	maxWriteAttempts = 3                // write attempts of one event
)

// refusals are the refusals of this replica that are not written yet. A refusal costs
// its request neither a database lock nor a write: refusals are written in one
// statement, about once per coalesceInterval.
type refusals struct {
	db     *sqlx.DB
	logger *slog.Logger
	clock  clock.Clock

	mu      sync.Mutex
	queue   map[refusalKey]*refusal
	orgs    map[uuid.UUID]int
	dropped int
	timer   *time.Timer // set while events are queued
	closed  bool
	writing sync.WaitGroup
}

// refusalKey identifies a separate event. The further refusals of an organization with
// many of them have no session, and then no machine, so that one organization can't
// fill the table or the queue.
type refusalKey struct {
	org, session uuid.UUID
	machine      string
	reason       Reason
}

// refusal is a queued event: the latest of the refusals that it represents. first and
// last are times of this process; only their age is used, relative to the database's
// clock.
type refusal struct {
	key         refusalKey
	req         Request
	grant       Grant
	count       int
	first, last time.Time
	attempts    int
}

func newRefusals(db *sqlx.DB, logger *slog.Logger, now clock.Clock) *refusals {
	return &refusals{
		db: db, logger: logger, clock: now, queue: map[refusalKey]*refusal{}, orgs: map[uuid.UUID]int{},
	}
}

// recordRefusal queues an event for a refused launch. It does not block.
func (s *Service) recordRefusal(req Request, grant Grant) {
	s.totals.refused.Add(1)
	s.refusals.add(req, grant)
}

func (r *refusals) add(req Request, grant Grant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	if r.closed {
		return
	}
	key := refusalKey{org: req.OrgID, session: req.SessionID, machine: req.MachineID, reason: grant.Reason}
	found, some := r.queue[key], r.orgs[req.OrgID]
	if found == nil && some >= maxBySession {
		key.session = uuid.Nil
		found = r.queue[key]
	}
	if found == nil && some >= maxByMachine {
		key.machine = ""
		found = r.queue[key]
	}
	if found == nil {
		if len(r.queue) >= maxRefusals {
			r.dropped++
			return
		}
		found = &refusal{key: key, first: now}
		r.queue[key] = found
		r.orgs[req.OrgID]++
	}
	req.NewProfile = nil // do not retain the profile's settings
	found.count++
	found.req, found.grant, found.last = req, grant, now
	r.scheduleWrite()
}

// drain empties the queue and announces the write that follows. After the last one it
// returns nil.
func (r *refusals) drain(last bool) (all []*refusal, dropped int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, 0
	}
	r.closed = last
	all, dropped = make([]*refusal, 0, len(r.queue)), r.dropped
	for _, each := range r.queue {
		all = append(all, each)
	}
	if r.timer != nil {
		r.timer.Stop()
	}
	r.queue, r.orgs, r.dropped, r.timer = map[refusalKey]*refusal{}, map[uuid.UUID]int{}, 0, nil
	r.writing.Add(1)
	return all, dropped
}

// writeRefusalsSQL takes the events as one JSON array, with their ages in seconds.
// Removed organizations are skipped.
const writeRefusalsSQL = `
INSERT INTO license_events (id, organization_id, kind, at, last_at, count, reason, machine_id, boot_id, session_id, profile_id,
	key_id, in_use, max_slots)
SELECT license_event_id(t.at), e.organization_id, 'refused', t.at, t.last_at, e.count, e.reason, e.machine_id, e.boot_id, e.session_id,
	e.profile_id, e.key_id, e.in_use, e.max_slots
FROM json_to_recordset($1) AS e (organization_id uuid, age float8, last_age float8, count integer, reason text,
	machine_id text, boot_id uuid, session_id uuid, profile_id uuid, key_id uuid, in_use integer, max_slots integer)
CROSS JOIN LATERAL (SELECT statement_timestamp() - make_interval(secs => e.age),
	statement_timestamp() - make_interval(secs => e.last_age)) AS t (at, last_at)
JOIN organizations o ON o.id = e.organization_id`

// write writes the queued events. Events that could not be written are queued again,
// unless this is the last write.
func (r *refusals) write(last bool) {
	all, dropped := r.drain(last)
	if all == nil {
		return
	}
	defer r.writing.Done()
	ctx, cancel := context.WithTimeout(context.Background(), refusalsTimeout)
	defer cancel()
	if dropped > 0 {
		r.logger.WarnContext(ctx, "too many refusals; events dropped", "refusals", dropped)
	}
	if len(all) == 0 {
		return
	}
	if err := r.insert(ctx, all); err != nil {
		r.logger.ErrorContext(ctx, "failed to write refusal events", "events", len(all), "error", err)
		r.requeue(all)
	}
}

func (r *refusals) insert(ctx context.Context, all []*refusal) error {
	now, rows := r.clock.Now(), make([]map[string]any, len(all))
	for i, each := range all {
		rows[i] = map[string]any{
			"organization_id": each.key.org, "age": now.Sub(each.first).Seconds(), "last_age": now.Sub(each.last).Seconds(),
			"count": each.count, "reason": each.key.reason, "session_id": each.req.SessionID, "profile_id": each.req.ProfileID,
			"key_id": nilIfZero(each.req.KeyID), "in_use": each.grant.current(), "max_slots": each.grant.Limit,
		}
		if each.key.machine != "" {
			rows[i]["machine_id"], rows[i]["boot_id"] = each.key.machine, each.req.BootID
		}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	_, err = r.db.ExecContext(ctx, writeRefusalsSQL, string(text))
	return err
}

// requeue queues events for another write, merged with those that arrived since.
func (r *refusals) requeue(all []*refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, each := range all {
		newer := r.queue[each.key]
		each.attempts++
		switch {
		case each.attempts >= maxWriteAttempts || newer == nil && len(r.queue) >= maxRefusals:
			r.dropped += each.count
		case newer != nil:
			newer.first, newer.attempts = each.first, each.attempts
			newer.count += each.count
		default:
			r.queue[each.key] = each
			r.orgs[each.key.org]++
		}
	}
	r.scheduleWrite()
}

func (r *refusals) scheduleWrite() {
	if r.timer == nil && !r.closed {
		r.timer = time.AfterFunc(coalesceInterval, func() { r.write(false) })
	}
}

// close writes the queued events, waits for writes in progress, and accepts no more
// events.
func (r *refusals) close() {
	r.write(true)
	r.writing.Wait()
}

func nilIfZero(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}
