package app

import (
	"cmp"
	"context"
	"log/slog"
	"math"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/worker/internal/api/rest"
	"github.com/browser-svc/svc/worker/internal/session/launch"
	"github.com/browser-svc/svc/worker/internal/session/warm"
)

// warmPerCPU is the maximum number of warm browsers per processor, unless WARM_POOL
// sets it. A busy machine with many kinds of launches needs so many.
const warmPerCPU = 8

// newWarmPool returns the pool of warm browsers. It starts none before
// startWarmPool runs the warm pool until stop is called.
func (w *worker) newWarmPool(config Config, spares launch.WarmStarter, logger *slog.Logger) *launch.WarmPool {
	smallest, largest := pair(config.WarmPool)
	return warm.New(warm.Options[launch.WarmKind, *launch.WarmBrowser]{
		Size: smallest, Max: cmp.Or(largest, warmPerCPU*w.cpus()),
		Start: spares.Start, First: spares.First, Load: w.warmPoolLoad, Clock: clock.System{}, Logger: logger,
	})
}

// warmPoolLoad returns how busy this machine is.
func (w *worker) warmPoolLoad() warm.Load {
	running, launching := w.launches.Counts()
	sample, limits := w.host.Last(), w.host.Admission
	load := warm.Load{
		Launching: launching, Capacity: -1, CPUPercent: sample.CPUPercent,
		At: sample.At, CPUs: w.cpus(), MemoryUsed: sample.MemoryUsedBytes, MemoryLimit: sample.MemoryLimitBytes, MemoryCeiling: limits.MaxMemoryPercent,
	}
	if limits.MaxSessions > 0 {
		load.Capacity = max(limits.MaxSessions-running-launching, 0)
	}
	return load
}

// cpus returns the number of processors that this worker may use.
func (w *worker) cpus() int { return max(int(math.Ceil(w.host.Facts().CPUs)), 1) }

// startWarmPool checks the fonts, loads the programs of browsers and keeps browsers ready until the returned
// function is called.
func (w *worker) startWarmPool(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.checkFonts(ctx)
		w.loadPrograms(ctx)
		w.warmPool.Run(ctx)
	}()
	return func() { cancel(); <-done }
}

// warmPoolState returns the warm browsers, the demand for them and the counts of warm and
// cold launches.
func (w *worker) warmPoolState() rest.WarmPoolState {
	stats, starts := w.warmPool.Stats(), w.launches.Starts()
	state := rest.WarmPoolState{
		Size: stats.Size, MaxSize: stats.Max, Target: stats.Target, TargetReason: string(stats.Reason), Starting: stats.Starting,
		Memory: stats.Memory, Warm: starts.Warm, Cold: starts.Cold, Died: stats.Died, Stale: stats.Stale,
	}
	for _, held := range stats.Ready {
		state.Ready = append(state.Ready, rest.WarmBrowsers{WarmKind: warmKind(held.Kind), Count: held.Count})
	}
	for _, demand := range stats.Demand {
		state.Demand = append(state.Demand, rest.WarmDemand{
			WarmKind: warmKind(demand.Kind), LaunchesPerMinute: demand.PerMinute, StartTime: demand.StartTime,
			Target: demand.Stock,
		})
	}
	return state
}

func warmKind(kind launch.WarmKind) rest.WarmKind {
	return rest.WarmKind{BrowserVersion: kind.Build.Major, Engine: string(kind.Build.Engine), Locale: kind.Locale, Timezone: kind.Timezone, Headless: kind.Headless}
}
