package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/browser-svc/svc/shared/benchresult"
)

// overHTTP compares svc-cloud with the same HTTP chain without a database, under the
// load of the same clients.
func (b *bench) overHTTP(ctx context.Context, name string, t tenant, clients, status int) (all [][]load, err error) {
	cloud, err := b.openCloud(ctx)
	if err != nil {
		return nil, err
	}
	chain, err := b.startSelf(ctx, "chain", t)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, chain.stop()) }()
	if err := t.requireSameAnswers(ctx, cloud, chain); err != nil {
		return nil, err
	}
	var sides []side
	for _, server := range []*child{cloud, chain} {
		measure, closeAll, err := b.requestSide(ctx, server, t, clients, status, 2*b.duration)
		if err != nil {
			return nil, err
		}
		defer closeAll()
		sides = append(sides, measure)
	}
	return benchresult.Interleave(ctx, b.rounds, b.profiledCloud(name, cloud.withCPU(sides[0])), chain.withCPU(sides[1]))
}

// hotOverHTTP measures an unlimited organization whose workers authorize launches as
// fast as possible.
func (b *bench) hotOverHTTP(ctx context.Context) ([]benchresult.Row, error) {
	t, err := b.tenant(ctx, unlimited)
	if err != nil {
		return nil, err
	}
	return b.compareOverHTTP(ctx, "http-256-clients", "one hot organization, HTTP, 256 clients: ", "granted", t, 256, http.StatusOK, 0.5)
}

// refusals measures an organization at its limit.
func (b *bench) refusals(ctx context.Context) ([]benchresult.Row, error) {
	t, err := b.tenant(ctx, 10)
	if err != nil {
		return nil, err
	}
	return b.compareOverHTTP(ctx, "refusals", "a full organization, HTTP, 64 clients: ", "refused", t, 64, http.StatusPaymentRequired, 0.8)
}

// compareOverHTTP returns the rows of overHTTP.
func (b *bench) compareOverHTTP(ctx context.Context, name, what, done string, t tenant, clients, status int, least float64) (rows []benchresult.Row, err error) {
	all, err := b.overHTTP(ctx, name, t, clients, status)
	if err != nil {
		return nil, err
	}
	for _, r := range []struct {
		what, unit string
		figure     func(load) float64
		target     benchresult.Target
	}{
		{done, "1/s", rate, benchresult.AtLeast(least)},
		{"p99", "ms", p99, benchresult.Target{}},
		{"CPU of the program", "µs", cpuMicros, benchresult.Target{}},
	} {
		rows = append(rows, benchresult.Row{
			What: what + r.what, Unit: r.unit, Ours: benchresult.Median(all[0], r.figure),
			Other: benchresult.Median(all[1], r.figure), Than: "the chain without a database", Target: r.target,
		})
	}
	return rows, nil
}
