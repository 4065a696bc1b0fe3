package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/browser-svc/svc/shared/benchresult"
)

// burst is what the slowest but one of a crowd waits for the first answer of its
// browser, with a pool and without.
func (b *bench) burst(ctx context.Context) ([]benchresult.Row, error) {
	rounds := max(b.rounds/4, 1) // each is many launches
	side := func(w *worker) benchresult.Side[float64] {
		return func(ctx context.Context) (float64, error) { return w.measureBurst(ctx, b.burstSize) }
	}
	all, err := benchresult.Interleave(ctx, rounds, side(b.warm), side(b.cold))
	if err != nil {
		return nil, err
	}
	return []benchresult.Row{{
		What: fmt.Sprintf("burst of %d asks, pool of %d: p95 to the first CDP answer", b.burstSize, poolSize), Unit: "ms",
		Ours: benchresult.Median(all[0], identity), Other: benchresult.Median(all[1], identity), Than: "without a pool", Target: benchresult.AtMost(0.9),
	}}, nil
}

// measureBurst is one burst of so many: p95, in milliseconds.
func (w *worker) measureBurst(ctx context.Context, crowd int) (float64, error) {
	if err := w.waitForWarmPool(ctx); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*readyTimeout)
	defer cancel()
	took, failed := make(chan float64, crowd), make(chan error, 2*crowd)
	var asking, ending sync.WaitGroup
	over := make(chan struct{}) // nobody ends before all have their answer
	for range crowd {
		asking.Add(1)
		ending.Go(func() {
			v, err := w.launchAndPing(ctx)
			took <- v.answeredMs
			asking.Done()
			if err != nil {
				failed <- err
				return
			}
			<-over
			v.client.close()
			if err := w.end(ctx, v.session); err != nil {
				failed <- err
			}
		})
	}
	asking.Wait()
	close(over)
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

// launchedBrowser is a browser that was asked for.
type launchedBrowser struct {
	session    session
	client     *client
	launchedMs float64 // when the launch was answered, in milliseconds
	answeredMs float64 // when the browser was
}

// launchAndPing launches a browser and asks it something.
func (w *worker) launchAndPing(ctx context.Context) (v launchedBrowser, err error) {
	began := time.Now()
	if v.session, err = w.launch(ctx); err != nil {
		return v, err
	}
	v.launchedMs = milliseconds(time.Since(began))
	for v.client == nil { // a machine that is too busy may answer that it is
		v.client, err = dial(ctx, v.session.WebSocketDebuggerURL, nil)
		if err != nil && (time.Since(began) > readyTimeout || pause(ctx, 20*time.Millisecond) != nil) {
			return v, err
		}
	}
	err = ping(ctx, v.client)
	v.answeredMs = milliseconds(time.Since(began))
	return v, err
}
