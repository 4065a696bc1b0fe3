// Package selftest tests a worker on its target machine. It starts a separate
// worker with an in-memory cloud, runs all launch scenarios concurrently in random
// order, kills the worker at the end, and checks that nothing has leaked on the
// machine.
package selftest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/worker/internal/testing/fakecloud"
)

// Options configure a self-test. Run sets defaults for zero values of the fields
// after Progress.
type Options struct {
	Program      []string      // command that starts a worker: svc-worker serve
	Environ      []string      // environment of the worker, except for reservedEnv
	BrowsersDirs string        // BROWSERS_DIR of the worker
	Duration     time.Duration // how long scenarios are started
	Progress     io.Writer     // progress output; may be nil

	Rounds      int      // runs of each scenario; replaces Duration
	Version     int      // browser major version; by default the newest
	Engine      string   // engine of the browser; by default chromium if it is installed
	Concurrency int      // concurrent browsers; by default from the number of processors
	Seed        uint64   // random seed; by default a new one
	Scenarios   []string // by name, without warm launches; by default all

	// CleanupTimeout is the time within which resources must be released; by default
	// 60 s, because the kernel frees a browser's memory slowly on a busy machine.
	CleanupTimeout time.Duration
}

// run is one self-test.
type run struct {
	Options
	dir     string
	cloud   *fakecloud.Cloud
	site    *testSite
	worker  *worker
	monitor *machineMonitor
	log     *sessionLog
	report  *Report

	version    int                     // of the browser
	engine     workerapi.BrowserEngine // of the browser
	hasDisplay bool                    // headful mode is available
	baseline   idleState               // the worker's resources after the warm-up
}

// Run runs a self-test. The error means that the test could not run; its
// findings are in the report.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	if o.Concurrency == 0 {
		o.Concurrency = min(max(runtime.NumCPU()+1, 2), 8)
	}
	if o.CleanupTimeout == 0 {
		o.CleanupTimeout = 60 * time.Second
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if err := becomeSubreaper(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "svc-selftest-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { // browsers may run as other users
		return nil, err
	}
	r := &run{Options: o, dir: dir, log: newSessionLog(), monitor: startMonitor(dir), report: &Report{Seed: o.Seed, User: user()}}
	defer r.monitor.stop()
	defer r.close()
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context){r.runScenarios, r.runWarmLaunches, r.checkIdle, r.killWorker, r.stopWorker} {
		if step(ctx); ctx.Err() != nil {
			return nil, fmt.Errorf("interrupted: %w", ctx.Err())
		}
	}
	r.summarize()
	return r.report, nil
}

func user() string {
	if os.Geteuid() == 0 {
		return "root"
	}
	return fmt.Sprintf("user %d", os.Geteuid())
}

// start starts the cloud, the test site and the worker, and warms the worker up.
func (r *run) start(ctx context.Context) error {
	var err error
	violated := func(text string) { r.log.addFailure("the worker violates the cloud's contract: %s", text) }
	if r.cloud, err = fakecloud.Open(ctx, violated); err != nil {
		return err
	}
	r.cloud.HeartbeatEvery(2 * time.Second)
	if r.site, err = startSite(); err != nil {
		return err
	}
	if r.worker, err = newWorker(r.Options, r.dir, "wrk_"+uuid.NewString(), r.cloud, r.site); err != nil {
		return err
	}
	began := time.Now()
	if err := r.worker.start(ctx); err != nil {
		return err
	}
	r.log.recordDuration(phaseFirstStart, time.Since(began))
	status, err := r.status(ctx)
	if err != nil {
		return err
	}
	if most := int(value(status.Capacity.MaxSessions)); most > 0 {
		r.Concurrency = min(r.Concurrency, most)
	}
	if err := r.chooseBrowser(ctx); err != nil {
		return err
	}
	return r.warmUp(ctx)
}

// close stops what is still running.
func (r *run) close() {
	if r.worker != nil && r.worker.done != nil {
		_ = r.worker.stop() // stopWorker reports errors
	}
	if r.site != nil {
		r.site.close()
	}
	if r.cloud != nil {
		r.cloud.Close()
	}
}

// chooseBrowser selects the tested browser and checks whether headful mode is
// available.
func (r *run) chooseBrowser(ctx context.Context) error {
	answer, err := r.worker.api.ListBrowserVersionsWithResponse(ctx)
	if err != nil {
		return err
	}
	if answer.JSON200 == nil {
		return fmt.Errorf("unexpected response to the list of browsers %s: %s", answer.Status(), answer.Body)
	}
	builds := answer.JSON200.Data.Builds
	installed := answer.JSON200.Data.Versions
	if len(builds) == 0 {
		return errors.New("no browser is installed: set CHROMIUM_PATH or run svc-worker browsers install")
	}
	i := slices.IndexFunc(builds, func(b workerapi.BrowserBuild) bool {
		return (r.Version == 0 || int(b.BrowserVersion) == r.Version) && (r.Engine == "" || string(b.Engine) == r.Engine)
	})
	if i < 0 {
		return fmt.Errorf("%s is not installed: installed versions are %v", r.wanted(), installed)
	}
	chosen := builds[i]
	r.engine = chosen.Engine
	r.version, r.hasDisplay, r.report.Browser = int(chosen.BrowserVersion), chosen.Headful, chosen.FullVersion+" "+string(chosen.Engine)
	r.report.Windows = "headless and headful"
	if _, err := exec.LookPath("Xvnc"); err != nil {
		r.hasDisplay, r.report.Windows = false, "headless only: Xvnc is not installed"
	} else if !chosen.Headful {
		r.report.Windows = "headless only: this build does not support headful mode"
	}
	return nil
}

// wanted describes the browser that the options ask for.
func (r *run) wanted() string {
	text := "a browser"
	if r.Version > 0 {
		text = fmt.Sprintf("browser version %d", r.Version)
	}
	if r.Engine != "" {
		text += " with the engine " + r.Engine
	}
	return text
}

// warmUp launches one browser of each kind, so that the worker's one-time
// initialization is done before the baseline is measured.
func (r *run) warmUp(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(r.Seed, 0))
	for _, screen := range []displayMode{headlessOnly, headfulOnly} {
		if screen == headfulOnly && !r.hasDisplay {
			continue
		}
		w := endScenarios()[0]
		w.display = screen
		if err := r.newScenarioRun(w, rng).execute(ctx); err != nil {
			return fmt.Errorf("the first browser: %w\n%s", err, r.worker.logTail())
		}
	}
	var err error
	r.baseline, err = r.waitUntilIdle(ctx, nil)
	return err
}

// runScenarios runs scenarios concurrently until the time is up.
func (r *run) runScenarios(ctx context.Context) {
	began := time.Now()
	scheduler := newScenarioScheduler(r.Options)
	done := r.showProgress(began)
	defer done()
	var walking sync.WaitGroup
	for range r.Concurrency {
		walking.Go(func() {
			for ctx.Err() == nil && (r.Rounds > 0 || time.Since(began) < r.Duration) {
				w, rng, ok := scheduler.next(r.hasDisplay)
				if !ok {
					return
				}
				t := r.newScenarioRun(w, rng)
				if err := t.execute(ctx); err != nil && ctx.Err() == nil {
					r.log.addFailure("%s: %v", t.label(w.name), err)
				}
			}
		})
	}
	walking.Wait()
	r.report.Seconds, r.report.Skipped = time.Since(began).Seconds(), scheduler.skipped(r.hasDisplay)
}
