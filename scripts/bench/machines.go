package main

import (
	"context"
	"crypto/md5" //nolint:gosec // PostgreSQL and Go make the same ids with it
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/shared/benchresult"
)

const (
	sessionsPerMachine = 10               // sessions
	heartbeatInterval  = 30 * time.Second // of each machine
	targetMachines     = 20_000           // machines that one cloud must support
	maxLatency         = 250 * time.Millisecond
	spread             = 100 // organizations that the machines belong to
	senders            = 256 // connections that send the heartbeats
)

// machineFleet is a growing number of machines.
type machineFleet struct {
	*licenseBench
	members []tenant
	size    int
	round   atomic.Int64 // makes the sequence numbers of heartbeats increase
}

// machines measures the maximum number of machines whose heartbeats are answered in
// time.
func (b *licenseBench) machines(ctx context.Context) ([]benchresult.Row, error) {
	tenants, err := b.tenants(ctx, spread, 0)
	if err != nil {
		return nil, err
	}
	c := &machineFleet{licenseBench: b, members: tenants}
	first, most, how, err := c.search(ctx)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("heartbeats of %d machines with %d sessions: ", targetMachines, sessionsPerMachine)
	return []benchresult.Row{
		{What: what + "p50", Unit: "ms", Ours: p50(first)},
		{What: what + "p99", Unit: "ms", Ours: p99(first), Target: benchresult.FigureAtMost(milliseconds(maxLatency))},
		{What: "machines carried at p99 < 250 ms", Unit: "machines", Ours: float64(most), Than: how, Target: benchresult.FigureAtLeast(targetMachines)},
	}, nil
}

// search measures targetMachines first, and then increases the number until it is too
// high, or decreases it if targetMachines already is. It returns the first measurement
// and the maximum.
func (c *machineFleet) search(ctx context.Context) (first load, most int, how string, err error) {
	const warm, least = 2 * time.Second, 1000
	long := 20 * time.Second
	if c.quick {
		long = 4 * time.Second
	}
	for n := targetMachines; n >= least; {
		if err := c.grow(ctx, n); err != nil {
			return first, 0, "", err
		}
		if _, err := c.sendHeartbeats(ctx, n, warm); err != nil {
			return first, 0, "", err
		}
		l, err := c.sendHeartbeats(ctx, n, long)
		if err != nil {
			return first, 0, "", err
		}
		benchresult.Detail("%d machines: %.0f heartbeats/s, p50 %.1f ms, p99 %.1f ms", n, l.perSecond, p50(l), p99(l))
		if n == targetMachines {
			first, long = l, long/2
		}
		carried := l.p99 < maxLatency
		if carried {
			most = n
		} else {
			how = fmt.Sprintf("p99 of %d machines: %.0f ms", n, p99(l))
		}
		switch {
		case c.quick, carried && n < targetMachines, !carried && n > targetMachines:
			return first, most, how, nil
		case carried:
			n = n * 3 / 2
		default:
			n = n * 2 / 3
		}
	}
	return first, most, how, nil
}

// grow creates machines with running sessions.
func (c *machineFleet) grow(ctx context.Context, size int) error {
	if size <= c.size {
		return nil
	}
	benchresult.Detail("making %d sessions of %d machines", (size-c.size)*sessionsPerMachine, size-c.size)
	orgs := make([]uuid.UUID, len(c.members))
	for i, t := range c.members {
		orgs[i] = t.Org
	}
	_, err := c.pool.ExecContext(ctx, `
		INSERT INTO license_slots (id, organization_id, session_id, profile_id, machine_id, boot_id, state, launch_id, browser_version,
			reserved_at, started_at, lease_until)
		SELECT gen_random_uuid(), ($1::uuid[])[1 + m % $2], md5('session-' || m || '-' || k)::uuid, gen_random_uuid(),
			'machine-' || m, md5('boot-' || m)::uuid, 'running', gen_random_uuid(), 156, now(), now(), now() + interval '6 hours'
		FROM generate_series($3::int, $4::int - 1) AS m, generate_series(1, $5::int) AS k`,
		pq.Array(orgs), len(orgs), c.size, size, sessionsPerMachine)
	if err != nil {
		return err
	}
	c.size = size
	return c.recount(ctx)
}

// id returns md5(text)::uuid, like PostgreSQL.
func id(format string, args ...any) uuid.UUID {
	return md5.Sum(fmt.Appendf(nil, format, args...)) //nolint:gosec // as above
}

// heartbeat returns the heartbeat request of a machine.
func (c *machineFleet) heartbeat(m int) []byte {
	body := fmt.Appendf(nil, `{"machineId":"machine-%d","bootId":"%s","seq":%d,"sessions":[`, m, id("boot-%d", m), c.round.Add(1))
	for k := range sessionsPerMachine {
		if k > 0 {
			body = append(body, ',')
		}
		body = append(body, '"')
		body = append(body, id("session-%d-%d", m, k+1).String()...)
		body = append(body, '"')
	}
	return request(http.MethodPost, "/v1/license/sessions/heartbeat", c.members[m%len(c.members)].Key, append(body, ']', '}'))
}

// sendHeartbeats sends the heartbeats of a duration. Each is sent when it is due,
// regardless of earlier ones, and its latency is measured from the due time, so that a
// stall counts for all heartbeats that it delays.
func (c *machineFleet) sendHeartbeats(ctx context.Context, n int, long time.Duration) (load, error) {
	conns, closeAll, err := connect(ctx, c.cloud.host(), senders)
	if err != nil {
		return load{}, err
	}
	defer closeAll()
	due := schedule{machines: n, apart: heartbeatInterval / time.Duration(n), long: long}
	var mu sync.Mutex
	var took []time.Duration
	var failures []error
	var group sync.WaitGroup
	runtime.GC()
	due.began = time.Now().Add(100 * time.Millisecond)
	for _, conn := range conns {
		group.Go(func() {
			own, err := c.send(ctx, conn, &due)
			mu.Lock()
			defer mu.Unlock()
			took, failures = append(took, own...), append(failures, err)
		})
	}
	group.Wait()
	if err := errors.Join(failures...); err != nil {
		return load{}, err
	}
	return summarize(took, time.Since(due.began)), ctx.Err()
}

// schedule defines when each machine's heartbeat is due.
type schedule struct {
	machines    int
	began       time.Time
	apart, long time.Duration
	count       atomic.Int64
}

// next returns the next heartbeat that no sender has taken.
func (s *schedule) next() (machine int, due time.Time, ok bool) {
	nth := s.count.Add(1) - 1
	after := time.Duration(nth) * s.apart
	return int(nth) % s.machines, s.began.Add(after), after < s.long
}

// send sends heartbeats one after the other.
func (c *machineFleet) send(ctx context.Context, conn *conn, due *schedule) (took []time.Duration, err error) {
	for ctx.Err() == nil {
		machine, dueTime, ok := due.next()
		if !ok {
			break
		}
		request := c.heartbeat(machine)
		time.Sleep(time.Until(dueTime))
		if err := conn.expect(http.StatusOK, request); err != nil {
			return took, err
		}
		took = append(took, time.Since(dueTime))
	}
	return took, nil
}
