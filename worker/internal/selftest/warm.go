package selftest

import (
	"context"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"
)

// warmLaunches is how many launches use warm browsers, if the machine is fast
// enough to start them.
const warmLaunches = 5

// runWarmLaunches launches warm browsers one after another. Before the last
// launch it kills the warm browsers: the worker must not assign a dead one.
func (r *run) runWarmLaunches(ctx context.Context) {
	if len(r.Scenarios) > 0 {
		return
	}
	rng := rand.New(rand.NewPCG(r.Seed, 1<<33))
	for i := range warmLaunches {
		w := endScenarios()[0]
		w.name = "warm launch"
		if i == warmLaunches-1 {
			w.name = "warm browser killed, then launched"
		}
		kind, ok := r.awaitWarmBrowser(ctx)
		if !ok {
			r.report.Skipped = append(r.report.Skipped, w.name)
			return
		}
		w.display = kind
		if i == warmLaunches-1 {
			r.killWarmBrowsers()
		}
		t := r.newScenarioRun(w, rng)
		if err := t.execute(ctx); err != nil && ctx.Err() == nil {
			r.log.addFailure("%s: %v", t.label(w.name), err)
		}
	}
}

// awaitWarmBrowser waits until the worker has a warm browser; false if it has
// none in time.
func (r *run) awaitWarmBrowser(ctx context.Context) (displayMode, bool) {
	for deadline := time.Now().Add(r.CleanupTimeout); ctx.Err() == nil && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		status, err := r.status(ctx)
		if err != nil || status.WarmPool.Size == 0 {
			return anyDisplay, false
		}
		for _, kind := range status.WarmPool.Ready {
			switch {
			case int(kind.BrowserVersion) != r.version || kind.Engine != r.engine || kind.Locale != "":
			case kind.Headless:
				return headlessOnly, true
			case r.hasDisplay:
				return headfulOnly, true
			}
		}
	}
	return anyDisplay, false
}

// killWarmBrowsers kills the warm browsers while no others run.
func (r *run) killWarmBrowsers() {
	for _, p := range descendants(r.worker.pid()) {
		if isBrowser(p) {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
}

// isBrowser reports whether a process is a browser's main process.
func isBrowser(p process) bool {
	return !p.zombie && strings.Contains(p.command, "--remote-debugging-pipe") && !strings.Contains(p.command, "--type=")
}
