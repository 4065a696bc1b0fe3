package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/benchresult"
)

// bareHeartbeatSQL is the minimum work of a heartbeat: it only extends the leases.
const bareHeartbeatSQL = `
UPDATE license_slots s SET heartbeat_at = clock_timestamp(), lease_until = clock_timestamp() + interval '5 minutes'
FROM unnest($2::uuid[]) AS l (session_id)
WHERE s.organization_id = $1 AND s.session_id = l.session_id AND s.released_at IS NULL`

// The numbers of sessions of machines.
const (
	heartbeatSessions = 1000
	smallMachine      = 100
)

// machine is a machine with running sessions of one organization.
type machine struct {
	tenant
	boot     uuid.UUID
	sessions []uuid.UUID
	seq      int64
}

func (d database) machine(ctx context.Context, n int) (*machine, error) {
	tenants, err := d.tenants(ctx, 1, 0)
	if err != nil {
		return nil, err
	}
	m := &machine{tenant: tenants[0], boot: newID()}
	m.sessions, err = d.runSessions(ctx, m.tenant, m.boot, n)
	return m, err
}

// beat sends a heartbeat.
func (m *machine) beat(c *conn) error {
	m.seq++
	body, err := json.Marshal(cloudapi.HeartbeatRequest{MachineId: "worker-1", BootId: m.boot, Seq: m.seq, Sessions: m.sessions})
	if err != nil {
		return err
	}
	return c.expect(http.StatusOK, request(http.MethodPost, "/v1/license/sessions/heartbeat", m.Key, body))
}

// heartbeats compares heartbeats of one machine with their bare statement for the same
// number of sessions.
func (b *licenseBench) heartbeats(ctx context.Context) ([]benchresult.Row, error) {
	m, err := b.machine(ctx, heartbeatSessions)
	if err != nil {
		return nil, err
	}
	conns, closeAll, err := connect(ctx, b.cloud.host(), 1)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	c := conns[0]
	c.keep = true
	if err := m.beat(c); err != nil {
		return nil, err
	}
	var answer cloudapi.HeartbeatResponse
	if err := json.Unmarshal(c.body, &answer); err != nil || len(answer.Data.Accepted) != heartbeatSessions {
		return nil, fmt.Errorf("%d of %d sessions accepted: %w", len(answer.Data.Accepted), heartbeatSessions, err)
	}
	c.keep = false
	small, err := b.machine(ctx, smallMachine)
	if err != nil {
		return nil, err
	}
	share, err := b.heapOnly(ctx, func() error { return small.beat(c) })
	if err != nil {
		return nil, err
	}
	ours, bare, err := b.compareWithBareSQL(ctx, heartbeatSessions, func() error { return m.beat(c) })
	what := fmt.Sprintf("heartbeat of %d sessions", heartbeatSessions)
	return []benchresult.Row{
		{What: fmt.Sprintf("heartbeat of %d sessions: HOT updates", smallMachine), Unit: "%", Ours: 100 * share, Target: benchresult.FigureAtLeast(95)},
		{What: what, Unit: "ms", Ours: ours, Other: bare, Than: "bare statement, lib/pq, same list", Target: benchresult.AtMost(1.3)},
	}, err
}

// compareWithBareSQL measures heartbeats and bare statements of n sessions alternately
// and returns the medians in milliseconds.
func (b *licenseBench) compareWithBareSQL(ctx context.Context, n int, beat func() error) (ours, bare float64, err error) {
	theirs, err := b.machine(ctx, n)
	if err != nil {
		return 0, 0, err
	}
	statement, err := b.pool.PreparexContext(ctx, bareHeartbeatSQL)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = statement.Close() }()
	var beats, updates []time.Duration
	runtime.GC()
	for i := range 20 + 30*b.rounds {
		began := time.Now()
		if err := beat(); err != nil {
			return 0, 0, err
		}
		between := time.Now()
		if _, err := statement.ExecContext(ctx, theirs.Org, pq.Array(theirs.sessions)); err != nil {
			return 0, 0, err
		}
		if i >= 20 { // the plans have settled
			beats, updates = append(beats, between.Sub(began)), append(updates, time.Since(between))
		}
	}
	return benchresult.Median(beats, milliseconds), benchresult.Median(updates, milliseconds), nil
}

// heapOnly returns the share of heap-only updates of the heartbeats.
func (b *licenseBench) heapOnly(ctx context.Context, beat func() error) (float64, error) {
	const beats = 200
	before, err := b.updates(ctx, 0)
	if err != nil {
		return 0, err
	}
	for range beats {
		if err := beat(); err != nil {
			return 0, err
		}
	}
	after, err := b.updates(ctx, before.All+beats)
	return float64(after.HeapOnly-before.HeapOnly) / float64(after.All-before.All), err
}

// updates are the numbers of updated rows of license_slots.
type updates struct {
	All      int `db:"n_tup_upd"`
	HeapOnly int `db:"n_tup_hot_upd"`
}

// updates waits until at least `least` updates are counted and the number is stable:
// PostgreSQL updates its statistics with a delay of one second.
func (d database) updates(ctx context.Context, least int) (u updates, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for last := -1; ; last = u.All {
		err := d.pool.GetContext(ctx, &u, `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'license_slots'`)
		if err != nil {
			return u, fmt.Errorf("read the table's statistics: %w", err)
		}
		if u.All >= least && u.All == last {
			return u, nil
		}
		if err := pause(ctx, 1100*time.Millisecond); err != nil {
			return u, fmt.Errorf("wait for the table's statistics: %w", err)
		}
	}
}
