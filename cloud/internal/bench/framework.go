package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/browser-svc/svc/shared/benchresult"
)

// framework compares the HTTP chain with a minimal baseline server, with and without
// an access log.
func (b *bench) framework(ctx context.Context) (rows []benchresult.Row, err error) {
	t, err := b.tenant(ctx, unlimited)
	if err != nil {
		return nil, err
	}
	var servers []*child
	var sides []side
	for _, start := range []struct {
		name  string
		level slog.Level
	}{{"chain", slog.LevelWarn}, {"baseline", slog.LevelWarn}, {"chain", slog.LevelInfo}, {"baseline", slog.LevelInfo}} {
		t.LogLevel = start.level
		server, err := b.startSelf(ctx, start.name, t)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, server.stop()) }()
		if t.Config == nil { // the baseline server returns the configuration
			verdict, err := t.authorize(ctx, server)
			if err != nil {
				return nil, err
			}
			t.Config = verdict.ProfileConfig
		}
		measure, closeAll, err := b.requestSide(ctx, server, t, 32, http.StatusOK, 2*b.duration)
		if err != nil {
			return nil, err
		}
		defer closeAll()
		servers, sides = append(servers, server), append(sides, server.withCPU(measure))
	}
	if err := t.requireSameAnswers(ctx, servers...); err != nil {
		return nil, err
	}
	all, err := benchresult.Interleave(ctx, b.rounds, sides...)
	if err != nil {
		return nil, err
	}
	const what, than = "CPU of a request: framework, validation, key check", "net/http and encoding/json by hand"
	cost := func(side int) float64 { return benchresult.Median(all[side], cpuMicros) }
	return []benchresult.Row{
		{What: what, Unit: "µs", Ours: cost(0), Other: cost(1), Than: than, Target: benchresult.AtMost(1.4)},
		{What: what + ", access log", Unit: "µs", Ours: cost(2), Other: cost(3), Than: than + ", a log, too"},
	}, nil
}
