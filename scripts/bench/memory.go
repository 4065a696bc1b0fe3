package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/browser-svc/svc/shared/benchresult"
)

const (
	settleTime         = 5 * time.Second // until what was just done is over
	memorySamples      = 10              // times, a second apart
	sessions           = 10              // run at once when they are weighed
	concurrentLaunches = 2               // launches, one for each core
)

// memory weighs a worker of its own: idle, with sessions that each have a
// client, and after many launches.
func (b *bench) memory(ctx context.Context) (rows []benchresult.Row, err error) {
	w, err := b.worker(ctx, "weighed")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
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
		{What: fmt.Sprintf("more of it after %d launches", b.launches), Unit: "MB", Ours: after - idle, Target: benchresult.FigureAtMost(10)},
		{
			What: fmt.Sprintf("more of it for each of %d sessions with a client", sessions), Unit: "kB",
			Ours: 1000 * (running - after) / sessions, Target: benchresult.FigureAtMost(300),
		},
	}, err
}

// idleMemory is the worker's memory at rest, in MB: the median of some seconds.
func (w *worker) idleMemory(ctx context.Context) (float64, error) {
	if err := pause(ctx, settleTime); err != nil {
		return 0, err
	}
	var weights []float64
	for range memorySamples {
		weight, err := w.memory()
		if err == nil {
			err = pause(ctx, time.Second)
		}
		if err != nil {
			return 0, err
		}
		weights = append(weights, weight)
	}
	return benchresult.Median(weights, identity), nil
}

// launchMany launches and ends so many browsers, two at a time.
func (w *worker) launchMany(ctx context.Context, n int) error {
	left := make(chan struct{}, n)
	for range n {
		left <- struct{}{}
	}
	close(left)
	failed := make(chan error, concurrentLaunches)
	var launching sync.WaitGroup
	for range concurrentLaunches {
		launching.Go(func() {
			for range left {
				s, err := w.launch(ctx)
				if err == nil {
					err = w.end(ctx, s)
				}
				if err != nil {
					failed <- err
					return
				}
			}
		})
	}
	launching.Wait()
	close(failed)
	return <-failed
}

// memoryWithSessions is the worker's memory while sessions run.
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
