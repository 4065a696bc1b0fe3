package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/shared/benchresult"
)

// The minimum cost of a durable pair: insert and delete a slot row, without a check.
const (
	floorInsertSQL = `
INSERT INTO license_slots (id, organization_id, session_id, profile_id, key_id, machine_id, boot_id, state, reserved_at, lease_until)
VALUES ($1, $2, $3, $2, $2, 'worker-1', $2, 'reserved', now(), now() + interval '2 minutes')`
	floorDeleteSQL = `DELETE FROM license_slots WHERE organization_id = $1 AND session_id = $2`
	floorScript    = `
INSERT INTO license_slots (id, organization_id, session_id, profile_id, key_id, machine_id, boot_id, state, reserved_at, lease_until)
VALUES (gen_random_uuid(), :org::uuid, gen_random_uuid(), :org::uuid, :org::uuid, 'worker-1', :org::uuid, 'reserved', now(), now() + interval '2 minutes')
RETURNING session_id \gset
DELETE FROM license_slots WHERE organization_id = :org::uuid AND session_id = :session_id::uuid;
`
)

// uncontended compares one client of one organization with the minimum cost, through
// pgbench and through lib/pq.
func (b *bench) uncontended(ctx context.Context) ([]benchresult.Row, error) {
	service, err := b.service(ctx, license.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = service.Close() }()
	orgs, err := b.organizations(ctx, 3, 1000)
	if err != nil {
		return nil, err
	}
	slow := *b
	slow.duration = time.Second // the minimum duration of pgbench
	bare, closeBare, err := slow.floorByDriver(ctx, orgs[1])
	if err != nil {
		return nil, err
	}
	defer closeBare()
	floor, err := slow.floor(orgs[2])
	if err != nil {
		return nil, err
	}
	ours := slow.pairs(reserver{service, newID()}, 1, func(int, int) uuid.UUID { return orgs[0] })
	all, err := benchresult.Interleave(ctx, b.rounds, b.profiled("go-uncontended", ours), floor, bare)
	if err != nil {
		return nil, err
	}
	row := benchresult.Row{
		What: "uncontended authorize and end, Go, 1 client", Unit: "pairs/s", Ours: benchresult.Median(all[0], rate),
		Other: benchresult.Median(all[1], rate), Than: "r2: insert and delete, pgbench -M prepared", Target: benchresult.AtLeast(0.75),
	}
	byDriver := row
	byDriver.Other, byDriver.Than, byDriver.Target = benchresult.Median(all[2], rate), "the same through lib/pq", benchresult.Target{}
	return []benchresult.Row{row, byDriver}, nil
}

// floorByDriver measures the minimum cost through the cloud's driver.
func (b *bench) floorByDriver(ctx context.Context, org uuid.UUID) (_ side, closeAll func(), err error) {
	insert, err := b.pool.PreparexContext(ctx, floorInsertSQL)
	if err != nil {
		return nil, nil, err
	}
	remove, err := b.pool.PreparexContext(ctx, floorDeleteSQL)
	if err != nil {
		_ = insert.Close()
		return nil, nil, err
	}
	measure := func(ctx context.Context) (load, error) {
		return runClients(ctx, 1, b.duration, func(ctx context.Context, _ int) error {
			session := newID()
			if _, err := insert.ExecContext(ctx, newID(), org, session); err != nil {
				return err
			}
			_, err := remove.ExecContext(ctx, org, session)
			return err
		})
	}
	return measure, func() { _, _ = insert.Close(), remove.Close() }, nil
}

var tps = regexp.MustCompile(`(?m)^tps = ([0-9.]+) `)

// floor measures the minimum cost with pgbench: one client, prepared statements.
func (b *bench) floor(org uuid.UUID) (side, error) {
	script := filepath.Join(b.dir, "floor.sql")
	if err := os.WriteFile(script, []byte(floorScript), 0o644); err != nil {
		return nil, err
	}
	environment, err := b.environment()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (load, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, filepath.Join(b.bin, "pgbench"), "--no-vacuum", "--protocol=prepared",
			"--client=1", "--jobs=1", "--time="+strconv.Itoa(int(b.duration.Seconds())), "--file="+script, "--define=org="+org.String())
		cmd.Env = environment
		out, err := cmd.CombinedOutput()
		match := tps.FindSubmatch(out)
		if err != nil {
			return load{}, fmt.Errorf("pgbench: %w\n%s", err, out)
		}
		if match == nil {
			return load{}, fmt.Errorf("no rate in the output of pgbench:\n%s", out)
		}
		perSecond, err := strconv.ParseFloat(string(match[1]), 64)
		return load{perSecond: perSecond}, err
	}, nil
}
