package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/browser-svc/svc/scripts/bench/results"
)

// burst is what the slowest but one of a crowd waits for the first answer of its
// browser, with a pool and without.
func (b *bench) burst(ctx context.Context) ([]results.Row, error) {
	rounds := max(b.rounds/4, 1) // each is many launches
	side := func(w *worker) results.Side[float64] {
		return func(ctx context.Context) (float64, error) { return w.crowded(ctx, b.crowd) }
	}
	all, err := results.Interleave(ctx, rounds, side(b.warm), side(b.cold))
	if err != nil {
		return nil, err
	}
	return []results.Row{{
		What: fmt.Sprintf("burst of %d asks, pool of %d: p95 to the first CDP answer", b.crowd, poolSize), Unit: "ms",
		Ours: results.Median(all[0], itself), Other: results.Median(all[1], itself), Than: "without a pool", Target: results.AtMost(0.9),
	}}, nil
}

// crowded is one burst of so many: p95, in milliseconds.
func (w *worker) crowded(ctx context.Context, crowd int) (float64, error) {
	if err := w.fill(ctx); err != nil {
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
			v, err := w.ask(ctx)
			took <- v.answered
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
	return results.Quantile(waited, 0.95, itself), nil
}

// asked is a browser that was asked for.
type asked struct {
	session  session
	client   *client
	granted  float64 // when the launch was answered, in milliseconds
	answered float64 // when the browser was
}

// ask launches a browser and asks it something.
func (w *worker) ask(ctx context.Context) (v asked, err error) {
	began := time.Now()
	if v.session, err = w.launch(ctx); err != nil {
		return v, err
	}
	v.granted = milliseconds(time.Since(began))
	for v.client == nil { // a machine that is too busy may answer that it is
		v.client, err = dial(ctx, v.session.WebSocketDebuggerURL, nil)
		if err != nil && (time.Since(began) > readyTimeout || pause(ctx, 20*time.Millisecond) != nil) {
			return v, err
		}
	}
	err = ping(ctx, v.client)
	v.answered = milliseconds(time.Since(began))
	return v, err
}
