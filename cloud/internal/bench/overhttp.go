package main

import (
	"context"
	"errors"
	"net/http"
)

// overHTTP compares svc-cloud with the same chain without a database, both asked
// for slots by the same clients.
func (b *bench) overHTTP(ctx context.Context, name string, t tenant, clients, status int) (all []loads, err error) {
	cloud, err := b.openCloud(ctx)
	if err != nil {
		return nil, err
	}
	chain, err := b.again(ctx, "chain", t)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, chain.stop()) }()
	if err := t.alike(ctx, cloud, chain); err != nil {
		return nil, err
	}
	var sides []side
	for _, server := range []*child{cloud, chain} {
		measure, closeAll, err := b.asks(ctx, server, t, clients, status, 2*b.turn)
		if err != nil {
			return nil, err
		}
		defer closeAll()
		sides = append(sides, measure)
	}
	return b.interleave(ctx, b.profiledCloud(name, cloud.spending(sides[0])), chain.spending(sides[1]))
}

// hotOverHTTP is one organization without a limit, whose workers ask for slots
// as fast as they can.
func (b *bench) hotOverHTTP(ctx context.Context) ([]row, error) {
	t, err := b.tenant(ctx, unlimited)
	if err != nil {
		return nil, err
	}
	return b.beside(ctx, "http-256-clients", "one hot organization, HTTP, 256 clients: ", "granted", t, 256, http.StatusOK, 0.5)
}

// refusals is an organization whose slots are all taken.
func (b *bench) refusals(ctx context.Context) ([]row, error) {
	t, err := b.tenant(ctx, 10)
	if err != nil {
		return nil, err
	}
	return b.beside(ctx, "refusals", "a full organization, HTTP, 64 clients: ", "refused", t, 64, http.StatusPaymentRequired, 0.8)
}

// beside is the rows of overHTTP.
func (b *bench) beside(ctx context.Context, name, what, done string, t tenant, clients, status int, least float64) ([]row, error) {
	all, err := b.overHTTP(ctx, name, t, clients, status)
	if err != nil {
		return nil, err
	}
	const than = "the chain without a database"
	return []row{
		{what + done, "1/s", all[0].median(rate), all[1].median(rate), than, atLeast(least)},
		{what + "p99", "ms", all[0].median(p99), all[1].median(p99), than, target{}},
		{what + "CPU of the program", "µs", all[0].median(cpuMicros), all[1].median(cpuMicros), than, target{}},
	}, nil
}
