package retention

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
)

const day = 24 * time.Hour

const period = 400 * day

// fixture is a database with one organization and a Service configured as in the
// cloud.
type fixture struct {
	t     *testing.T
	dsn   string
	owner *sqlx.DB
	log   *bytes.Buffer
	svc   *Service
	org   uuid.UUID
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	h := &fixture{t: t, dsn: dbtest.NewDSN(t), log: &bytes.Buffer{}, org: uuid.Must(uuid.NewV7())}
	h.owner = dbtest.Open(t, h.dsn, pg.Options{})
	h.svc = h.replica()
	h.exec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Test', 'test', now())`, h.org)
	return h
}

func (h *fixture) replica() *Service {
	h.t.Helper()
	return &Service{DB: dbtest.Open(h.t, h.dsn, pg.Options{Role: pg.AllRole}),
		Logger: slog.New(slog.NewTextHandler(h.log, nil)), Period: period, Options: Options{Batch: 10, Pause: time.Millisecond}}
}

func (h *fixture) exec(query string, args ...any) {
	h.t.Helper()
	if _, err := h.owner.ExecContext(context.Background(), query, args...); err != nil {
		h.t.Fatalf("%s: %v", query, err)
	}
}

// idOfAge returns a version 7 id of that age.
func idOfAge(age time.Duration) uuid.UUID {
	id, old := uuid.Must(uuid.NewV7()), idLowerBound(time.Now().Add(-age))
	copy(id[:6], old[:6])
	return id
}

// The rows of each table. age is the time since the end; if negative, it has not ended.
func (h *fixture) session(age time.Duration) {
	status, ended := "exited", new(time.Now().Add(-age))
	if age < 0 {
		status, ended = "running", nil
	}
	h.exec(`INSERT INTO activity_sessions (id, organization_id, profile_id, profile_name, machine_id, launch_id, browser_version, status, started_at, ended_at)
		VALUES ($1, $2, $1, 'P', 'm', $1, 156, $3, now() - interval '1000 days', $4)`, uuid.New(), h.org, status, ended)
}

func (h *fixture) event(age time.Duration) {
	h.exec(`INSERT INTO audit_events (id, organization_id, action, target_id, actor_type, created_at) VALUES ($1, $2, 'a.b', 'x', 'system', $3)`,
		idOfAge(age), h.org, time.Now().Add(-age))
}

func (h *fixture) mail(age time.Duration) {
	state, sealed, finished := "sent", []byte(nil), new(time.Now().Add(-age))
	if age < 0 {
		state, sealed, finished = "queued", []byte("x"), nil
	}
	h.exec(`INSERT INTO mail_outbox (id, recipient, subject, encrypted_text, state, due_at, created_at, finished_at)
		VALUES ($1, 'a@example.com', 's', $2, $3, now(), now() - interval '1000 days', $4)`, idOfAge(1000*day), sealed, state, finished)
}

func (h *fixture) message(age time.Duration) {
	h.exec(`INSERT INTO contact_messages (id, name, email, message, network, created_at) VALUES ($1, 'A', 'a@example.com', 'm', '203.0.113.7', $2)`,
		idOfAge(age), time.Now().Add(-age))
}

func (h *fixture) slot(age time.Duration) {
	if age < 0 {
		h.exec(`INSERT INTO license_slots (id, organization_id, session_id, machine_id, boot_id, state, reserved_at, lease_until)
			VALUES ($1, $2, $1, 'm', $1, 'reserved', now() - interval '1000 days', now() - interval '999 days')`, idOfAge(1000*day), h.org)
		return
	}
	h.exec(`INSERT INTO license_slots (id, organization_id, session_id, state, reserved_at, lease_until, released_at, release_reason, ended_at, end_status, end_reason)
		VALUES ($1, $2, $1, 'released', now() - interval '1000 days', now(), $3, 'ended', now(), 'exited', 'idle')`, idOfAge(1000*day), h.org, time.Now().Add(-age))
}

func (h *fixture) licenseEvent(age time.Duration) {
	h.exec(`INSERT INTO license_events (id, organization_id, kind, at) VALUES ($1, $2, 'refused', $3)`, idOfAge(age), h.org, time.Now().Add(-age))
}

func (h *fixture) machine(age time.Duration) {
	name := uuid.NewString()
	h.exec(`INSERT INTO license_machines (organization_id, machine_id, boot_id, seq, heartbeat_at) VALUES ($1, $2, $1, 1, $3)`,
		h.org, name, time.Now().Add(-age))
	h.exec(`INSERT INTO license_machine_info (organization_id, machine_id, key_id, host_name, version, draining, changed_at)
		VALUES ($1, $2, $1, 'host', '1.0.0', false, now())`, h.org, name)
}

func (h *fixture) outboxEvent(age time.Duration) {
	h.exec(`INSERT INTO events (id, organization_id, type, data, created_at) VALUES ($1, $2, 'key.revoked', '{}', $3)`, uuid.New(), h.org, time.Now().Add(-age)) // as reported events, not in the order of creation
}

func (h *fixture) delivery(age time.Duration) {
	h.exec(`INSERT INTO webhook_endpoints (id, organization_id, url, secret, enabled, created_at, updated_at)
		VALUES ($1, $1, 'https://hooks.example.com', '', false, now(), now()) ON CONFLICT DO NOTHING`, h.org)
	h.exec(`INSERT INTO webhook_deliveries (id, organization_id, endpoint_id, event_id, position, type, due_at, created_at)
		VALUES ($1, $2, $2, $1, 1, 'key.revoked', now(), $3)`, idOfAge(age), h.org, time.Now().Add(-age))
}

func (h *fixture) answer(age time.Duration) {
	h.exec(`INSERT INTO idempotency_keys (id, fingerprint, holder, lease_until, expires_at) VALUES (sha256($1), sha256('x'), gen_random_uuid(), now(), $2)`,
		[]byte(uuid.NewString()), time.Now().Add(-age))
}

// countRows returns the number of rows of each table.
func (h *fixture) countRows() map[string]int64 {
	h.t.Helper()
	counts := map[string]int64{}
	for _, table := range []string{"activity_sessions", "audit_events", "mail_outbox", "contact_messages", "license_slots", "license_events", "license_machines", "events", "webhook_deliveries", "idempotency_keys"} {
		var n int64
		if err := h.owner.Get(&n, `SELECT count(*) FROM `+table); err != nil {
			h.t.Fatal(err)
		}
		counts[table] = n
	}
	return counts
}

func (h *fixture) deleteExpired() map[string]int64 {
	h.t.Helper()
	removed, err := h.svc.DeleteExpired(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	return removed
}

func TestDeleteExpired_DeletesOnlyExpiredRows(t *testing.T) {
	h := newFixture(t)
	const unended, expired = -time.Hour, time.Minute
	for _, table := range []struct {
		add    func(age time.Duration)
		period time.Duration
	}{
		{h.session, period}, {h.event, period}, {h.mail, Records}, {h.message, period}, {h.slot, Records},
		{h.licenseEvent, Records}, {h.machine, Records}, {h.outboxEvent, Events}, {h.delivery, Events}, {h.answer, 0},
	} {
		table.add(table.period + expired)
		table.add(table.period + day)
		if table.period > 0 {
			table.add(table.period - expired)
		}
		table.add(unended)
	}
	want := map[string]int64{"activity_sessions": 2, "audit_events": 2, "mail_outbox": 2, "contact_messages": 2, "license_slots": 2, "license_events": 2, "license_machines": 2, "events": 2, "webhook_deliveries": 2, "idempotency_keys": 2}
	if diff := cmp.Diff(want, h.deleteExpired()); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	want["idempotency_keys"] = 1
	if diff := cmp.Diff(want, h.countRows()); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	var reports int
	if err := h.owner.Get(&reports, `SELECT count(*) FROM license_machine_info`); err != nil || reports != 2 {
		t.Errorf("%d reports of machines are left, %v; want those of the two machines", reports, err)
	}
	if text := h.log.String(); !strings.Contains(text, "table=license_slots rows=2") {
		t.Errorf("not logged: %s", text)
	}
	h.log.Reset()
	if again := h.deleteExpired(); len(again) != 0 || h.log.Len() != 0 {
		t.Errorf("the second pass removed %v and logged %s", again, h.log)
	}
}

func TestDeleteExpired_ZeroPeriodKeepsForever(t *testing.T) {
	h := newFixture(t)
	h.svc.Period = 0
	for _, add := range []func(time.Duration){h.session, h.event, h.mail, h.message, h.slot, h.licenseEvent, h.machine, h.answer} {
		add(900 * day)
	}
	want := map[string]int64{"mail_outbox": 1, "license_slots": 1, "license_events": 1, "license_machines": 1, "idempotency_keys": 1}
	if diff := cmp.Diff(want, h.deleteExpired()); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
}

func TestDeleteExpired_KeepsMachineWithLiveSlot(t *testing.T) {
	h := newFixture(t)
	h.machine(900 * day)
	h.machine(900 * day)
	h.slot(-day)
	h.exec(`UPDATE license_slots SET machine_id = (SELECT min(machine_id) FROM license_machines)`)
	if removed := h.deleteExpired()["license_machines"]; removed != 1 {
		t.Errorf("removed %d machines, want the one without", removed)
	}
}

func TestDeleteExpired_DeletesInBatches(t *testing.T) {
	h := newFixture(t)
	for range 35 {
		h.event(900 * day)
	}
	if removed := h.deleteExpired()["audit_events"]; removed != 35 {
		t.Errorf("removed %d of 35, by tens", removed)
	}
}

func TestDeleteExpired_ConcurrentReplicasSkipLockedRows(t *testing.T) {
	h := newFixture(t)
	for range 200 {
		h.event(900 * day)
	}
	holder, err := h.owner.Beginx()
	if err != nil {
		t.Fatal(err)
	}
	holder.MustExec(`SELECT FROM audit_events ORDER BY id LIMIT 3 FOR UPDATE`)
	h.svc.Logger = slog.New(slog.DiscardHandler)
	other := h.replica()
	other.Logger = h.svc.Logger
	var counts [2]int64
	var both sync.WaitGroup
	for i, svc := range []*Service{h.svc, other} {
		both.Go(func() {
			removed, err := svc.DeleteExpired(context.Background())
			if err != nil {
				t.Error(err)
			}
			counts[i] = removed["audit_events"]
		})
	}
	both.Wait()
	if n := h.countRows()["audit_events"]; n < 3 || counts[0]+counts[1] != 200-n {
		t.Errorf("the two replicas deleted %v, and %d remain", counts, n)
	}
	if err := holder.Rollback(); err != nil {
		t.Fatal(err)
	}
	h.deleteExpired()
	if n := h.countRows()["audit_events"]; n != 0 {
		t.Errorf("%d rows remain after they were unlocked", n)
	}
}

func TestRun_DeletesUntilContextEnds(t *testing.T) {
	h := newFixture(t)
	h.event(900 * day)
	h.svc.Options.Every = 20 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { h.svc.Run(ctx) })
	for deadline := time.Now().Add(10 * time.Second); h.countRows()["audit_events"] > 0; {
		if time.Now().After(deadline) {
			t.Fatal("the row was not deleted")
		}
		time.Sleep(2 * time.Millisecond)
	}
	cancel()
	running.Wait()
}

// With a long history each batch finds its rows by an index.
func TestDeleteQuery_UsesIndex(t *testing.T) {
	h := newFixture(t)
	const some = `FROM generate_series(1, 20000) AS i`
	v7 := `overlay(gen_random_uuid()::text placing left(lpad(to_hex((EXTRACT(epoch FROM now() - i * interval '1 minute') * 1000)::bigint), 12, '0'), 8)
		|| '-' || right(lpad(to_hex((EXTRACT(epoch FROM now() - i * interval '1 minute') * 1000)::bigint), 12, '0'), 4) || '-7' from 1 for 15)::uuid`
	for _, text := range []string{
		`INSERT INTO activity_sessions SELECT gen_random_uuid(), $1, $1, 'P', 'm', $1, 156, 'exited', NULL, now() - i * interval '1 minute', now() ` + some,
		`INSERT INTO audit_events SELECT ` + v7 + `, $1, 'a.b', 'x', 'system', NULL, NULL, NULL, NULL, '{}', now() - i * interval '1 minute' ` + some,
		`INSERT INTO mail_outbox SELECT ` + v7 + `, 'a', 's', NULL, 'sent', 1, now(), NULL, now(), now() - i * interval '1 minute' ` + some + ` WHERE $1::uuid IS NOT NULL`,
		`INSERT INTO contact_messages SELECT ` + v7 + `, 'a', 'a', NULL, NULL, 'm', '203.0.113.7', now() - i * interval '1 minute' ` + some + ` WHERE $1::uuid IS NOT NULL`,
		`INSERT INTO license_slots (id, organization_id, session_id, state, reserved_at, lease_until, released_at, release_reason, ended_at, end_status, end_reason)
			SELECT ` + v7 + `, $1, gen_random_uuid(), 'released', now(), now(), now() - i * interval '1 minute', 'ended', now(), 'exited', 'idle' ` + some,
		`INSERT INTO idempotency_keys SELECT sha256(i::text::bytea), sha256('x'), $1, now(), now() - interval '1 hour' + i * interval '1 minute' ` + some,
	} {
		h.exec(text, h.org)
	}
	h.exec(`ANALYZE`)
	for _, r := range []rule{feed, audit, mail, contact, slots, answers} {
		for _, period := range []time.Duration{time.Hour, 13 * day, 400 * day} { // nearly all rows, a few, none
			t.Run(fmt.Sprintf("%s after %v", r.table, period), func(t *testing.T) {
				var lines []string
				query, args := r.deleteQuery(period, 1000)
				if err := h.svc.DB.Select(&lines, `EXPLAIN `+query, args...); err != nil {
					t.Fatal(err)
				}
				plan := strings.Join(lines, "\n")
				if regexp.MustCompile(`Seq Scan|Sort`).MatchString(plan) || !strings.Contains(plan, "Tid Scan") {
					t.Errorf("full scan:\n%s", plan)
				}
			})
		}
	}
}
