package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/browser-svc/svc/shared/benchresult"
)

const (
	settleTime         = 5 * time.Second // until earlier work is complete
	memorySamples      = 10              // one per second
	sessions           = 10              // concurrent sessions when memory is measured
	concurrentLaunches = 2               // one for each core
)

// memory measures the memory of a separate worker: idle, after many launches, and
// with sessions that each have a client.
func (b *bench) memory(ctx context.Context) (rows []benchresult.Row, err error) {
	w, err := b.worker(ctx, "memory")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Stop()) }() // it must not use the processor later
	idle, err := w.idleMemory(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.launchMany(ctx, b.launches); err != nil {
		return nil, err
	}
	after, err := w.idleMemory(ctx)
	if err != nil {
		return nil, err
	}
	running, err := w.memoryWithSessions(ctx)
	return []benchresult.Row{
		{What: "worker's memory (PSS), idle", Unit: "MB", Ours: idle, Target: benchresult.FigureAtMost(15)},
		{What: fmt.Sprintf("memory growth after %d launches", b.launches), Unit: "MB", Ours: after - idle, Target: benchresult.FigureAtMost(10)},
		{
			What: fmt.Sprintf("memory per session, %d sessions with a client", sessions), Unit: "kB",
			Ours: 1000 * (running - after) / sessions, Target: benchresult.FigureAtMost(300),
		},
	}, err
}

// idleMemory returns the memory of the idle worker in MB, the median of some
// seconds.
func (w *worker) idleMemory(ctx context.Context) (float64, error) {
	if err := pause(ctx, settleTime); err != nil {
		return 0, err
	}
	var samples []float64
	for range memorySamples {
		sample, err := w.memory()
		if err == nil {
			err = pause(ctx, time.Second)
		}
		if err != nil {
			return 0, err
		}
		samples = append(samples, sample)
	}
	return benchresult.Median(samples, identity), nil
}

// launchMany launches and ends n browsers, two at a time.
func (w *worker) launchMany(ctx context.Context, n int) error {
	return concurrently(ctx, concurrentLaunches, n, func(ctx context.Context, _ int) error {
		s, err := w.launch(ctx)
		if err != nil {
			return err
		}
		return w.end(ctx, s)
	})
}

// memoryWithSessions returns the worker's memory while sessions run.
func (w *worker) memoryWithSessions(ctx context.Context) (megabytes float64, err error) {
	for range sessions {
		s, err := w.launch(ctx)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, w.end(ctx, s)) }()
		c, err := dial(ctx, s.WebSocketDebuggerURL, nil)
		if err != nil {
			return 0, err
		}
		defer c.close()
		if err := ping(ctx, c); err != nil {
			return 0, err
		}
	}
	return w.idleMemory(ctx)
}
