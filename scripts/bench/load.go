package main

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/browser-svc/svc/shared/benchresult"
)

// load is the result of one measurement.
type load struct {
	perSecond float64
	p50, p99  time.Duration // of one operation
	cpuMicros float64       // of the server process per operation, if measured
}

func rate(l load) float64      { return l.perSecond }
func p50(l load) float64       { return milliseconds(l.p50) }
func p99(l load) float64       { return milliseconds(l.p99) }
func cpuMicros(l load) float64 { return l.cpuMicros }

// runClients lets clients work for the given duration, each as fast as it can.
func runClients(ctx context.Context, clients int, turn time.Duration, work func(ctx context.Context, client int) error) (load, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var stop atomic.Bool
	defer time.AfterFunc(turn, func() { stop.Store(true) }).Stop()
	var mu sync.Mutex
	var took []time.Duration
	var group sync.WaitGroup
	runtime.GC() // garbage of the previous measurement
	began := time.Now()
	for client := range clients {
		group.Go(func() {
			var own []time.Duration
			for start := time.Now(); !stop.Load() && ctx.Err() == nil; {
				if err := work(ctx, client); err != nil {
					cancel(err)
					return
				}
				now := time.Now()
				own = append(own, now.Sub(start))
				start = now
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, own...)
		})
	}
	group.Wait()
	elapsed := time.Since(began)
	if err := context.Cause(ctx); err != nil {
		return load{}, err
	}
	return summarize(took, elapsed), nil
}

func summarize(took []time.Duration, elapsed time.Duration) load {
	if len(took) == 0 {
		return load{}
	}
	slices.Sort(took)
	return load{
		perSecond: float64(len(took)) / elapsed.Seconds(),
		p50:       took[len(took)/2], p99: took[len(took)*99/100],
	}
}

// loadSide is one side of a comparison.
type loadSide = benchresult.Side[load]
