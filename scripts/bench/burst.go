package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/browser-svc/svc/shared/benchresult"
)

// burst measures concurrent launches, with and without a warm pool: the 95th
// percentile of the time to the first answer of the browser.
func (b *bench) burst(ctx context.Context) ([]benchresult.Row, error) {
	rounds := max(b.rounds/4, 1) // each round has many launches
	side := func(w *worker) benchresult.Side[float64] {
		return func(ctx context.Context) (float64, error) { return w.measureBurst(ctx, b.burstSize) }
	}
	all, err := benchresult.Interleave(ctx, rounds, side(b.warm), side(b.cold))
	if err != nil {
		return nil, err
	}
	return []benchresult.Row{{
		What: fmt.Sprintf("burst of %d launches, pool of %d:  p95 to the first CDP answer", b.burstSize, poolSize), Unit: "ms",
		Ours: benchresult.Median(all[0], identity), Other: benchresult.Median(all[1], identity), Than: "without a pool", Target: benchresult.AtMost(0.9),
	}}, nil
}

// measureBurst launches count browsers concurrently and returns the 95th percentile
// in milliseconds.
func (w *worker) measureBurst(ctx context.Context, count int) (float64, error) {
	if err := w.waitForWarmPool(ctx); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*readyTimeout)
	defer cancel()
	took, failed := make(chan float64, count), make(chan error, 2*count)
	var launching, ending sync.WaitGroup
	launched := make(chan struct{}) // closed when all browsers have answered
	for range count {
		launching.Add(1)
		ending.Go(func() {
			v, err := w.launchAndPing(ctx)
			took <- v.answeredMs
			launching.Done()
			if err != nil {
				failed <- err
				return
			}
			<-launched
			v.client.close()
			if err := w.end(ctx, v.session); err != nil {
				failed <- err
			}
		})
	}
	launching.Wait()
	close(launched)
	ending.Wait()
	close(took)
	close(failed)
	if err := <-failed; err != nil {
		return 0, err
	}
	var waited []float64
	for t := range took {
		waited = append(waited, t)
	}
	return benchresult.Quantile(waited, 0.95, identity), nil
}

// launchedBrowser is a launched browser and its times.
type launchedBrowser struct {
	session    session
	client     *client
	launchedMs float64 // the time to the response of the launch, in milliseconds
	answeredMs float64 // the time to the browser's first answer, in milliseconds
}

// launchAndPing launches a browser and sends it one CDP command.
func (w *worker) launchAndPing(ctx context.Context) (v launchedBrowser, err error) {
	began := time.Now()
	if v.session, err = w.launch(ctx); err != nil {
		return v, err
	}
	v.launchedMs = milliseconds(time.Since(began))
	for v.client == nil { // the connection may fail on a busy machine
		v.client, err = dial(ctx, v.session.WebSocketDebuggerURL, nil)
		if err != nil && (time.Since(began) > readyTimeout || pause(ctx, 20*time.Millisecond) != nil) {
			return v, err
		}
	}
	err = ping(ctx, v.client)
	v.answeredMs = milliseconds(time.Since(began))
	return v, err
}
