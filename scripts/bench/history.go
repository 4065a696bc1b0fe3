package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/lib/pq"

	"github.com/browser-svc/svc/shared/benchresult"
)

// history measures authorize in a database with many live and ended slots, compared
// with an empty one on the same server.
func (b *licenseBench) history(ctx context.Context) (_ []benchresult.Row, err error) {
	if _, err := b.admin.ExecContext(ctx, `CREATE DATABASE history OWNER svc`); err != nil {
		return nil, err
	}
	dsn, err := withPath(b.postgres.DSN(), "history")
	if err != nil {
		return nil, err
	}
	long := *b
	e := *b.environment
	long.environment = &e
	if e.cloud, err = e.start(ctx, "svc-cloud", "cloud-history", "DATABASE_URL="+dsn); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.cloud.Stop()) }()
	if long.database, err = b.openDatabase(ctx, dsn); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, long.database.close()) }()
	live, ended := 100_000, 1_000_000
	if b.quick {
		live, ended = live/20, ended/20
	}
	tenants, err := long.tenants(ctx, 100, 0)
	if err != nil {
		return nil, err
	}
	if err := long.fill(ctx, tenants, live, ended); err != nil {
		return nil, err
	}
	empty, err := b.tenants(ctx, 1, 0)
	if err != nil {
		return nil, err
	}
	var sides []loadSide
	for _, database := range []struct {
		*licenseBench
		tenant
	}{{&long, tenants[0]}, {b, empty[0]}} {
		measure, closeAll, err := database.requestSide(ctx, 1, func(c *conn, _ int) error {
			return c.expect(http.StatusOK, database.authorize(newID()))
		})
		if err != nil {
			return nil, err
		}
		defer closeAll()
		sides = append(sides, measure)
	}
	all, err := benchresult.Interleave(ctx, b.rounds, sides...)
	if err != nil {
		return nil, err
	}
	p50 := row(fmt.Sprintf("authorize, %d live and %d ended slots: p50", live, ended), "ms", all, p50, "an empty database")
	p50.Target = benchresult.AtMost(1.1)
	return []benchresult.Row{p50}, nil
}

// fill inserts slots, spread over organizations.
func (d database) fill(ctx context.Context, tenants []tenant, live, ended int) error {
	orgs := make([]string, len(tenants))
	for i, t := range tenants {
		orgs[i] = t.Org.String()
	}
	for _, part := range []struct {
		text string
		n    int
	}{
		{`INSERT INTO license_slots (id, organization_id, session_id, profile_id, machine_id, boot_id, state, launch_id, browser_version,
			reserved_at, started_at, lease_until, released_at, release_reason, ended_at, end_status, end_reason)
		SELECT gen_random_uuid(), ($1::uuid[])[1 + i % $2], gen_random_uuid(), gen_random_uuid(), 'worker-' || i % 1000, gen_random_uuid(),
			'released', gen_random_uuid(), 156, now(), now(), now(), now(), 'ended', now(), 'exited', 'unknown'
		FROM generate_series(1, $3::int) AS i`, ended},
		{`INSERT INTO license_slots (id, organization_id, session_id, profile_id, machine_id, boot_id, state, launch_id, browser_version,
			reserved_at, started_at, lease_until)
		SELECT gen_random_uuid(), ($1::uuid[])[1 + i % $2], gen_random_uuid(), gen_random_uuid(), 'worker-' || i % 1000, gen_random_uuid(),
			'running', gen_random_uuid(), 156, now(), now(), now() + interval '1 hour' FROM generate_series(1, $3::int) AS i`, live},
	} {
		if _, err := d.pool.ExecContext(ctx, part.text, pq.Array(orgs), len(orgs), part.n); err != nil {
			return fmt.Errorf("insert %d slots: %w", part.n, err)
		}
	}
	return d.recount(ctx)
}
