package main

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/shared/benchresult"
)

// The same pair without the service: two prepared statements that check the limit and
// count.
const (
	plainTakeSQL = `
WITH counted AS (
	UPDATE license_org SET in_use = in_use + 1 WHERE organization_id = $1 AND (max_slots IS NULL OR in_use < max_slots)
	RETURNING in_use, max_slots
), taken AS (
	INSERT INTO license_slots (id, organization_id, session_id, profile_id, key_id, machine_id, boot_id, state, reserved_at, lease_until)
	SELECT $2, $1, $3, $4, $1, 'worker-1', $1, 'reserved', now(), now() + interval '2 minutes' FROM counted
)
SELECT in_use, max_slots FROM counted`
	plainEndSQL = `
WITH ended AS (
	UPDATE license_slots SET state = 'released', released_at = now(), release_reason = 'ended', ended_at = now(),
		end_status = 'exited', end_reason = 'unknown'
	WHERE organization_id = $1 AND session_id = $2 AND released_at IS NULL
	RETURNING id
)
UPDATE license_org SET in_use = in_use - 1 WHERE organization_id = $1 AND EXISTS (SELECT FROM ended)`
)

// many uses so many organizations that requests are rarely batched.
func (b *bench) many(ctx context.Context) (rows []benchresult.Row, err error) {
	service, err := b.service(ctx, license.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = service.Close() }()
	var plain [2]*sqlx.Stmt
	for i, text := range []string{plainTakeSQL, plainEndSQL} {
		if plain[i], err = b.pool.PreparexContext(ctx, text); err != nil {
			return nil, err
		}
		defer func() { _ = plain[i].Close() }()
	}
	orgs, err := b.organizations(ctx, 1000, 1000)
	if err != nil {
		return nil, err
	}
	pick := func(client, i int) uuid.UUID { return orgs[(client*7919+i*31)%len(orgs)] }
	for _, at := range []struct {
		clients int
		least   float64
	}{{8, 0.95}, {32, 0.9}} {
		ours := b.pairs(reserver{service, newID()}, at.clients, pick)
		all, err := benchresult.Interleave(ctx, b.rounds, b.profiled(fmt.Sprintf("go-1000-organizations-%d-clients", at.clients), ours),
			b.plainPairs(plain, at.clients, pick))
		if err != nil {
			return nil, err
		}
		rows = append(rows, benchresult.Row{
			What: fmt.Sprintf("1,000 organizations, Go, %d clients: reserve and release", at.clients), Unit: "pairs/s",
			Ours:  benchresult.Median(all[0], rate),
			Other: benchresult.Median(all[1], rate), Than: "plain prepared statements", Target: benchresult.AtLeast(at.least),
		})
	}
	return rows, nil
}

func (b *bench) plainPairs(stmts [2]*sqlx.Stmt, clients int, pick func(client, i int) uuid.UUID) side {
	next := make([]int, clients)
	profile := newID()
	return func(ctx context.Context) (load, error) {
		return runClients(ctx, clients, b.duration, func(ctx context.Context, client int) error {
			next[client]++
			org, session := pick(client, next[client]), newID()
			var usage license.Usage
			if err := stmts[0].GetContext(ctx, &usage, org, newID(), session, profile); err != nil {
				return err
			}
			_, err := stmts[1].ExecContext(ctx, org, session)
			return err
		})
	}
}
