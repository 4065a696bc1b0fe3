package app

import (
	"context"
	"log/slog"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/worker/internal/launch"
	"github.com/browser-svc/svc/worker/internal/rest"
	"github.com/browser-svc/svc/worker/internal/warm"
)

// newPool returns the pool of browsers that are kept ready. It keeps none until
// keepWarm.
func (w *worker) newPool(config Config, spares launch.WarmStarter, logger *slog.Logger) *launch.WarmPool {
	return warm.New(warm.Options[launch.WarmKind, *launch.WarmBrowser]{
		Size: config.WarmPool, Memory: config.WarmPoolMemory << 20,
		Start: spares.Start, First: spares.First, Load: w.load, Clock: clock.System{}, Logger: logger,
	})
}

// load is how busy this machine is.
func (w *worker) load() warm.Load {
	running, launching := w.launches.Counts()
	sample, limits := w.host.Last(), w.host.Admission
	load := warm.Load{
		Launching: launching, Capacity: -1, CPUPercent: sample.CPUPercent,
		MemoryUsed: sample.MemoryUsedBytes, MemoryLimit: sample.MemoryLimitBytes, MemoryCeiling: limits.MaxMemoryPercent,
	}
	if limits.MaxSessions > 0 {
		load.Capacity = max(limits.MaxSessions-running-launching, 0)
	}
	return load
}

// keepWarm keeps browsers ready until the returned function is called.
func (w *worker) keepWarm(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.pool.Run(ctx)
	}()
	return func() { cancel(); <-done }
}

// poolState is what is kept ready, and how launches got their browsers.
func (w *worker) poolState() rest.PoolState {
	stats, starts := w.pool.Stats(), w.launches.Starts()
	state := rest.PoolState{
		Size: stats.Size, Memory: stats.Memory, Warm: starts.Warm, Cold: starts.Cold, Died: stats.Died, Stale: stats.Stale,
	}
	if stats.Starting {
		state.Starting = 1
	}
	for _, held := range stats.Ready {
		state.Ready = append(state.Ready, rest.Ready{
			BrowserVersion: held.Kind.Build.Major, Locale: held.Kind.Locale, Headless: held.Kind.Headless, Count: held.Count,
		})
	}
	return state
}
