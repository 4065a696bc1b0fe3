package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/benchresult"
)

// The minimum cost of a durable pair: insert and delete a slot row, without a check.
const (
	floorInsertSQL = `
INSERT INTO license_slots (id, organization_id, session_id, profile_id, key_id, machine_id, boot_id, state, reserved_at, lease_until)
VALUES ($2, $1, $3, $4, $1, 'worker-1', $1, 'reserved', now(), now() + interval '2 minutes')`
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
func (b *licenseBench) uncontended(ctx context.Context) ([]benchresult.Row, error) {
	tenants, err := b.tenants(ctx, 3, 1000)
	if err != nil {
		return nil, err
	}
	slow := *b
	slow.duration = time.Second // the minimum duration of pgbench
	bare, closeBare, err := slow.statementPairs(ctx, floorInsertSQL, floorDeleteSQL, 1, only(tenants[1]))
	if err != nil {
		return nil, err
	}
	defer closeBare()
	floor, err := slow.floor(tenants[2].Org)
	if err != nil {
		return nil, err
	}
	ours, closeOurs, err := slow.pairs(ctx, 1, only(tenants[0]))
	if err != nil {
		return nil, err
	}
	defer closeOurs()
	all, err := benchresult.Interleave(ctx, b.rounds, ours, floor, bare)
	if err != nil {
		return nil, err
	}
	const what = "uncontended authorize and end, 1 client"
	return []benchresult.Row{
		row(what, "pairs/s", all[:2], rate, "insert and delete, pgbench -M prepared"),
		row(what, "pairs/s", [][]load{all[0], all[2]}, rate, "the same through lib/pq"),
	}, nil
}

var tps = regexp.MustCompile(`(?m)^tps = ([0-9.]+) `)

// floor measures the minimum cost with pgbench: one client, prepared statements.
func (b *licenseBench) floor(org uuid.UUID) (loadSide, error) {
	script := filepath.Join(b.dir, "floor.sql")
	if err := os.WriteFile(script, []byte(floorScript), 0o644); err != nil {
		return nil, err
	}
	address, err := url.Parse(b.postgres.DSN())
	if err != nil {
		return nil, err
	}
	password, _ := address.User.Password()
	return func(ctx context.Context) (load, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, filepath.Join(b.postgresBin, "pgbench"), "--no-vacuum", "--protocol=prepared",
			"--client=1", "--jobs=1", "--time="+strconv.Itoa(int(b.duration.Seconds())), "--file="+script, "--define=org="+org.String())
		cmd.Env = []string{ // the password must not be an argument
			"PGHOST=" + address.Query().Get("host"), "PGPORT=" + address.Query().Get("port"), "PGUSER=" + address.User.Username(),
			"PGPASSWORD=" + password, "PGDATABASE=" + strings.TrimPrefix(address.Path, "/"),
			"PGOPTIONS=-c role=" + pg.AllRole, "PATH=" + os.Getenv("PATH"),
		}
		out, err := cmd.CombinedOutput()
		match := tps.FindSubmatch(out)
		if err != nil || match == nil {
			return load{}, fmt.Errorf("pgbench: %w\n%s", err, out)
		}
		perSecond, err := strconv.ParseFloat(string(match[1]), 64)
		return load{perSecond: perSecond}, err
	}, nil
}
