package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
)

// framework weighs the chain against a server written by hand, both without and
// with a log of their requests.
func (b *bench) framework(ctx context.Context) (rows []row, err error) {
	t, err := b.tenant(ctx, unlimited)
	if err != nil {
		return nil, err
	}
	var servers []*child
	var sides []side
	for _, start := range []struct {
		name  string
		level slog.Level
	}{{"chain", slog.LevelWarn}, {"byhand", slog.LevelWarn}, {"chain", slog.LevelInfo}, {"byhand", slog.LevelInfo}} {
		t.LogLevel = start.level
		server, err := b.again(ctx, start.name, t)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, server.stop()) }()
		if t.Config == nil { // the server written by hand gives it back
			verdict, err := t.ask(ctx, server)
			if err != nil {
				return nil, err
			}
			t.Config = verdict.ProfileConfig
		}
		measure, closeAll, err := b.asks(ctx, server, t, 32, http.StatusOK, 2*b.turn)
		if err != nil {
			return nil, err
		}
		defer closeAll()
		servers, sides = append(servers, server), append(sides, server.spending(measure))
	}
	if err := t.alike(ctx, servers...); err != nil {
		return nil, err
	}
	all, err := b.interleave(ctx, sides...)
	if err != nil {
		return nil, err
	}
	const what, than = "CPU of a request: framework, validation, key check", "net/http and encoding/json by hand"
	return []row{
		{what, "µs", all[0].median(cpuMicros), all[1].median(cpuMicros), than, atMost(1.4)},
		{what + ", access log", "µs", all[2].median(cpuMicros), all[3].median(cpuMicros), than + ", a log, too", target{}},
	}, nil
}
