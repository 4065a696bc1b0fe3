package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/browser-svc/svc/scripts/bench/results"
)

const (
	resting  = 5 * time.Second // until what was just done is over
	weighing = 10              // times, a second apart
	sessions = 10              // run at once when they are weighed
	atOnce   = 2               // launches, one for each core
)

// memory weighs a worker of its own: idle, with sessions that each have a
// client, and after many launches.
func (b *bench) memory(ctx context.Context) (rows []results.Row, err error) {
	w, err := b.worker(ctx, "weighed")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	idle, err := w.rested(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.launchMany(ctx, b.launches); err != nil {
		return nil, err
	}
	after, err := w.rested(ctx)
	if err != nil {
		return nil, err
	}
	running, err := w.withSessions(ctx)
	return []results.Row{
		{What: "worker's memory (PSS), idle", Unit: "MB", Ours: idle, Target: results.FigureAtMost(15)},
		{What: fmt.Sprintf("more of it after %d launches", b.launches), Unit: "MB", Ours: after - idle, Target: results.FigureAtMost(10)},
		{
			What: fmt.Sprintf("more of it for each of %d sessions with a client", sessions), Unit: "kB",
			Ours: 1000 * (running - after) / sessions, Target: results.FigureAtMost(300),
		},
	}, err
}

// rested is the worker's memory at rest, in MB: the median of some seconds.
func (w *worker) rested(ctx context.Context) (float64, error) {
	if err := pause(ctx, resting); err != nil {
		return 0, err
	}
	var weights []float64
	for range weighing {
		weight, err := w.memory()
		if err == nil {
			err = pause(ctx, time.Second)
		}
		if err != nil {
			return 0, err
		}
		weights = append(weights, weight)
	}
	return results.Median(weights, itself), nil
}

// launchMany launches and ends so many browsers, two at a time.
func (w *worker) launchMany(ctx context.Context, n int) error {
	left := make(chan struct{}, n)
	for range n {
		left <- struct{}{}
	}
	close(left)
	failed := make(chan error, atOnce)
	var launching sync.WaitGroup
	for range atOnce {
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

// withSessions is the worker's memory while sessions run.
func (w *worker) withSessions(ctx context.Context) (megabytes float64, err error) {
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
	return w.rested(ctx)
}
