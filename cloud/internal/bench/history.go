package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/shared/benchresult"
)

// history measures authorize in a database with many live and ended slots, compared
// with an empty one on the same server.
func (b *bench) history(ctx context.Context) (_ []benchresult.Row, err error) {
	long, err := b.createDatabase(ctx, "history")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.drop(ctx, long, "history")) }()
	orgs, err := long.organizations(ctx, 100, unlimited)
	if err != nil {
		return nil, err
	}
	live, ended := 100_000, 1_000_000
	if b.quick {
		live, ended = live/20, ended/20
	}
	if err := long.fill(ctx, orgs, live, ended); err != nil {
		return nil, err
	}
	var sides []side
	for i, d := range []database{long, b.database} {
		org := orgs[0]
		if i > 0 {
			if org, err = d.organization(ctx, unlimited); err != nil {
				return nil, err
			}
		}
		service, err := d.service(ctx, license.Options{})
		if err != nil {
			return nil, err
		}
		defer func() { _ = service.Close() }()
		sides = append(sides, b.authorizes(service, org))
	}
	all, err := benchresult.Interleave(ctx, b.rounds, sides...)
	if err != nil {
		return nil, err
	}
	return []benchresult.Row{{
		What: fmt.Sprintf("authorize, %d live and %d ended slots: p50", live, ended), Unit: "ms",
		Ours: benchresult.Median(all[0], p50), Other: benchresult.Median(all[1], p50), Than: "an empty database", Target: benchresult.AtMost(1.1),
	}}, nil
}

// authorizes is the side of one client that takes slots.
func (b *bench) authorizes(service *license.Service, org uuid.UUID) side {
	profile := newID()
	return func(ctx context.Context) (load, error) {
		return runClients(ctx, 1, b.duration, func(ctx context.Context, _ int) error {
			grant, err := service.Authorize(ctx, license.Request{
				OrgID: org, KeyID: org, MachineID: "worker-1", BootID: org, SessionID: newID(), ProfileID: &profile,
			})
			if err == nil && !grant.Allowed {
				err = fmt.Errorf("refused at %d", grant.Current)
			}
			return err
		})
	}
}

// fill inserts slots, spread over organizations.
func (d database) fill(ctx context.Context, orgs []uuid.UUID, live, ended int) error {
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

// drop drops a database.
func (b *bench) drop(ctx context.Context, d database, name string) error {
	err := d.closePools()
	if ctx.Err() != nil {
		return err // removing the server removes the database
	}
	_, dropErr := b.admin.ExecContext(ctx, "DROP DATABASE "+pq.QuoteIdentifier(name)+" WITH (FORCE)")
	return errors.Join(err, dropErr)
}
