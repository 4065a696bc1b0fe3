package app

import (
	"context"
	"log/slog"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/worker/internal/launch"
	"github.com/browser-svc/svc/worker/internal/rest"
	"github.com/browser-svc/svc/worker/internal/warm"
)

// newWarmPool returns the pool of warm browsers. It starts none before
// startWarmPool runs the warm pool until stop is called.
func (w *worker) newWarmPool(config Config, spares launch.WarmStarter, logger *slog.Logger) *launch.WarmPool {
	return warm.New(warm.Options[launch.WarmKind, *launch.WarmBrowser]{
		Size: config.WarmPool, Memory: config.WarmPoolMemory << 20,
		Start: spares.Start, First: spares.First, Load: w.warmPoolLoad, Clock: clock.System{}, Logger: logger,
	})
}

// warmPoolLoad returns how busy this machine is.
func (w *worker) warmPoolLoad() warm.Load {
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

// startWarmPool keeps browsers ready until the returned function is called.
func (w *worker) startWarmPool(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.warmPool.Run(ctx)
	}()
	return func() { cancel(); <-done }
}

// warmPoolState returns the warm browsers and the counts of warm and cold launches.
func (w *worker) warmPoolState() rest.WarmPoolState {
	stats, starts := w.warmPool.Stats(), w.launches.Starts()
	state := rest.WarmPoolState{
		Size: stats.Size, Memory: stats.Memory, Warm: starts.Warm, Cold: starts.Cold, Died: stats.Died, Stale: stats.Stale,
	}
	if stats.Starting {
		state.Starting = 1
	}
	for _, held := range stats.Ready {
		state.Ready = append(state.Ready, rest.WarmBrowsers{
			BrowserVersion: held.Kind.Build.Major, Engine: string(held.Kind.Build.Engine), Locale: held.Kind.Locale, Headless: held.Kind.Headless, Count: held.Count,
		})
	}
	return state
}
