package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/shared/benchresult"
)

// reserver reserves and releases slots.
type reserver struct {
	service *license.Service
	profile uuid.UUID
}

// reserveAndRelease reserves and releases a slot, and appends both durations to calls.
func (p reserver) reserveAndRelease(ctx context.Context, org uuid.UUID, calls *[]time.Duration) error {
	session, began := newID(), time.Now()
	grant, err := p.service.Authorize(ctx, license.Request{
		OrgID: org, KeyID: org, MachineID: "worker-1", BootID: org, SessionID: session, ProfileID: &p.profile,
	})
	if err != nil {
		return err
	}
	if !grant.Allowed {
		return fmt.Errorf("refused at %d", grant.Current)
	}
	reserved := time.Now()
	_, err = p.service.End(ctx, license.EndReport{OrgID: org, ProfileID: p.profile, SessionID: session})
	*calls = append(*calls, reserved.Sub(began), time.Since(reserved))
	return err
}

// pairs is the side whose clients reserve and release slots in the organizations that
// pick returns.
func (b *bench) pairs(p reserver, clients int, pick func(client, i int) uuid.UUID) side {
	next := make([]int, clients)
	return func(ctx context.Context) (load, error) {
		calls := make([][]time.Duration, clients)
		l, err := runClients(ctx, clients, b.duration, func(ctx context.Context, client int) error {
			next[client]++
			return p.reserveAndRelease(ctx, pick(client, next[client]), &calls[client])
		})
		l.p99Call = summarize(slices.Concat(calls...), b.duration).p99
		return l, err
	}
}

// hot reserves and releases slots in one organization, with and without batching.
func (b *bench) hot(ctx context.Context) (rows []benchresult.Row, err error) {
	combined, err := b.service(ctx, license.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = combined.Close() }()
	alone, err := b.service(ctx, license.Options{NoBatching: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = alone.Close() }()
	for _, at := range []struct {
		clients int
		least   float64
	}{{32, 12}, {128, 20}} {
		orgs, err := b.organizations(ctx, 2, 1000)
		if err != nil {
			return nil, err
		}
		in := func(org uuid.UUID) func(int, int) uuid.UUID { return func(int, int) uuid.UUID { return org } }
		ours := b.pairs(reserver{combined, newID()}, at.clients, in(orgs[0]))
		all, err := benchresult.Interleave(ctx, b.rounds, b.profiled(fmt.Sprintf("go-%d-clients", at.clients), ours),
			b.pairs(reserver{alone, newID()}, at.clients, in(orgs[1])))
		if err != nil {
			return nil, err
		}
		for _, r := range []struct {
			what, unit string
			figure     func(load) float64
			target     benchresult.Target
		}{
			{"reserve and release", "pairs/s", rate, benchresult.AtLeast(at.least)},
			{"p99 of a pair", "ms", p99, benchresult.FigureAtMost(7)},
			{"p99 of one call", "ms", p99Call, benchresult.Target{}},
		} {
			rows = append(rows, benchresult.Row{
				What: fmt.Sprintf("one hot organization, Go, %d clients: %s", at.clients, r.what), Unit: r.unit,
				Ours: benchresult.Median(all[0], r.figure), Other: benchresult.Median(all[1], r.figure), Than: "combiner off", Target: r.target,
			})
		}
	}
	return rows, nil
}
