package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/benchresult"
)

// bareHeartbeatSQL is the minimum work of a heartbeat: it only extends the leases.
const bareHeartbeatSQL = `
UPDATE license_slots s SET heartbeat_at = clock_timestamp(), lease_until = clock_timestamp() + interval '5 minutes'
FROM unnest($2::uuid[]) AS l (session_id)
WHERE s.organization_id = $1 AND s.session_id = l.session_id AND s.released_at IS NULL`

const bareHeartbeat = "bare statement, lib/pq, same list"

// machine is a machine with running sessions of one organization.
type machine struct {
	tenant
	boot     uuid.UUID
	sessions []uuid.UUID
	seq      int64
}

func (d database) machine(ctx context.Context, n int) (*machine, error) {
	t, err := d.tenant(ctx, unlimited)
	if err != nil {
		return nil, err
	}
	m := &machine{tenant: t, boot: newID()}
	for range n {
		m.sessions = append(m.sessions, newID())
	}
	_, err = d.pool.ExecContext(ctx, `
		INSERT INTO license_slots (id, organization_id, session_id, profile_id, machine_id, boot_id, state, launch_id, browser_version,
			reserved_at, started_at, lease_until)
		SELECT gen_random_uuid(), $1, session_id, $2, 'worker-1', $3, 'running', gen_random_uuid(), 156,
			now(), now(), now() + interval '6 hours' FROM unnest($4::uuid[]) AS session_id`, m.Org, m.Profile, m.boot, pq.Array(m.sessions))
	if err != nil {
		return nil, err
	}
	return m, d.recount(ctx)
}

// beat sends a heartbeat by calling the service.
func (m *machine) beat(ctx context.Context, service *license.Service) error {
	m.seq++
	result, err := service.Heartbeat(ctx, license.HeartbeatReport{
		OrgID: m.Org, MachineID: "worker-1", BootID: m.boot, Seq: m.seq, Sessions: m.sessions,
	})
	if err == nil && len(result.Accepted) != len(m.sessions) {
		err = fmt.Errorf("%d of %d sessions accepted", len(result.Accepted), len(m.sessions))
	}
	return err
}

// firstSeq has as many digits as all following numbers.
const firstSeq = 1_000_000_000

// poster returns a function that sends a heartbeat over HTTP. The request is prepared
// except for its sequence number.
func (m *machine) poster(c *conn) (func() error, error) {
	body, err := json.Marshal(cloudapi.HeartbeatRequest{MachineId: "worker-1", BootId: m.boot, Seq: firstSeq, Sessions: m.sessions})
	if err != nil {
		return nil, err
	}
	request, digits := post("/v1/license/sessions/heartbeat", m.Key, body), strconv.Itoa(firstSeq)
	at := bytes.Index(request, []byte(`"seq":`+digits)) + len(`"seq":`)
	return func() error {
		m.seq++
		strconv.AppendInt(request[at:at], firstSeq+m.seq, 10)
		return c.expect(http.StatusOK, request)
	}, nil
}

// heartbeats compares heartbeats of one machine with their bare statement for the same
// number of sessions and the same driver.
func (b *bench) heartbeats(ctx context.Context) ([]benchresult.Row, error) {
	rows, err := b.heartbeatsByService(ctx, 100)
	if err != nil {
		return nil, err
	}
	ours, bare, err := b.heartbeatsOverHTTP(ctx, 1000)
	return append(rows, benchresult.Row{
		What: "heartbeat of 1,000 sessions, HTTP", Unit: "ms", Ours: ours, Other: bare, Than: bareHeartbeat, Target: benchresult.AtMost(1.3),
	}), err
}

func (b *bench) heartbeatsByService(ctx context.Context, n int) ([]benchresult.Row, error) {
	service, err := b.service(ctx, license.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = service.Close() }()
	m, err := b.machine(ctx, n)
	if err != nil {
		return nil, err
	}
	share, err := b.heapOnly(ctx, func() error { return m.beat(ctx, service) })
	if err != nil {
		return nil, err
	}
	ours, bare, err := b.compareWithBareSQL(ctx, n, func() error { return m.beat(ctx, service) })
	what := fmt.Sprintf("heartbeat of %d sessions, Go", n)
	return []benchresult.Row{
		{What: what + ": HOT updates", Unit: "%", Ours: 100 * share, Target: benchresult.FigureAtLeast(95)},
		{What: what, Unit: "ms", Ours: ours, Other: bare, Than: bareHeartbeat, Target: benchresult.AtMost(1.3)},
	}, err
}

func (b *bench) heartbeatsOverHTTP(ctx context.Context, n int) (ours, bare float64, err error) {
	cloud, err := b.openCloud(ctx)
	if err != nil {
		return 0, 0, err
	}
	m, err := b.machine(ctx, n)
	if err != nil {
		return 0, 0, err
	}
	conns, closeAll, err := connect(ctx, cloud.address, 1)
	if err != nil {
		return 0, 0, err
	}
	defer closeAll()
	beat, err := m.poster(conns[0])
	if err != nil {
		return 0, 0, err
	}
	conns[0].keep = true
	if err := beat(); err != nil {
		return 0, 0, err
	}
	var answer cloudapi.HeartbeatResponse
	if err := json.Unmarshal(conns[0].body, &answer); err != nil || len(answer.Data.Accepted) != n {
		return 0, 0, fmt.Errorf("%d of %d sessions accepted: %w", len(answer.Data.Accepted), n, err)
	}
	conns[0].keep = false
	return b.compareWithBareSQL(ctx, n, beat)
}

// compareWithBareSQL measures heartbeats and bare statements of n sessions alternately
// and returns the medians in milliseconds.
func (b *bench) compareWithBareSQL(ctx context.Context, n int, beat func() error) (ours, bare float64, err error) {
	theirs, err := b.machine(ctx, n)
	if err != nil {
		return 0, 0, err
	}
	stmt, err := b.pool.PreparexContext(ctx, bareHeartbeatSQL)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = stmt.Close() }()
	update := func(stmt *sqlx.Stmt) error {
		_, err := stmt.ExecContext(ctx, theirs.Org, pq.Array(theirs.sessions))
		return err
	}
	var beats, updates []time.Duration
	runtime.GC()
	for i := range 20 + 30*b.rounds {
		began := time.Now()
		if err := beat(); err != nil {
			return 0, 0, err
		}
		between := time.Now()
		if err := update(stmt); err != nil {
			return 0, 0, err
		}
		if i >= 20 { // the plans have settled
			beats, updates = append(beats, between.Sub(began)), append(updates, time.Since(between))
		}
	}
	slices.Sort(beats)
	slices.Sort(updates)
	return milliseconds(beats[len(beats)/2]), milliseconds(updates[len(updates)/2]), nil
}

// heapOnly returns the share of heap-only updates of the heartbeats.
func (b *bench) heapOnly(ctx context.Context, beat func() error) (float64, error) {
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
		select {
		case <-ctx.Done():
			return u, fmt.Errorf("wait for the table's statistics: %w", ctx.Err())
		case <-time.After(1100 * time.Millisecond):
		}
	}
}
