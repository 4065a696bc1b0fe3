// Package selftest tries a worker out on the machine that it is to stand on. It
// runs one beside itself, before a cloud in memory, goes every way that a launch
// can go, several at once and in an order by chance, kills the worker in the
// end, and compares what is on the machine with what was there before.
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
	"github.com/browser-svc/svc/worker/internal/fakecloud"
)

// Options says what is tried, and for how long. Zero values of the second part
// are settled by Run.
type Options struct {
	Program      []string      // starts a worker: svc-worker serve
	Environ      []string      // of the worker, but for what the run decides
	BrowsersDirs string        // what BROWSERS_DIR is for it
	Duration     time.Duration // of the time in which ways are begun
	Progress     io.Writer     // how far it has come; nil tells nobody

	Rounds      int      // goes every way so many times instead, however long that takes
	Version     int      // the browser's major version; the newest
	Concurrency int      // browsers at once; what the processors carry
	Seed        uint64   // of what is left to chance; a new one
	Scenarios   []string // by name, without browsers that are kept ready; all

	CleanupTimeout time.Duration // for what has ended to be gone; 15 s
}

// run is one selftest.
type run struct {
	Options
	dir     string
	cloud   *fakecloud.Cloud
	site    *testSite
	worker  *worker
	monitor *machineMonitor
	log     *sessionLog
	report  *Report

	version    int       // of the browser
	hasDisplay bool      // it can show windows here
	baseline   idleState // the worker after it was warmed up
}

// Run makes a selftest. The error means that it could not be made; what it
// found is in the report.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	if o.Concurrency == 0 {
		o.Concurrency = min(max(runtime.NumCPU()+1, 2), 8)
	}
	if o.CleanupTimeout == 0 {
		o.CleanupTimeout = 15 * time.Second
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
	if err := os.Chmod(dir, 0o755); err != nil { // browsers may run as users of their own
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

// start starts the cloud, the pages and the worker, and warms that up.
func (r *run) start(ctx context.Context) error {
	var err error
	violated := func(text string) { r.log.addFailure("the worker breaks the cloud's contract: %s", text) }
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

// close ends what is still there.
func (r *run) close() {
	if r.worker != nil && r.worker.done != nil {
		_ = r.worker.stop() // has been told of, where it matters
	}
	if r.site != nil {
		r.site.close()
	}
	if r.cloud != nil {
		r.cloud.Close()
	}
}

// chooseBrowser settles which browser is tried, and whether it can show windows.
func (r *run) chooseBrowser(ctx context.Context) error {
	answer, err := r.worker.api.ListBrowserVersionsWithResponse(ctx)
	if err != nil {
		return err
	}
	if answer.JSON200 == nil {
		return fmt.Errorf("the installed browsers were answered %s: %s", answer.Status(), answer.Body)
	}
	builds := answer.JSON200.Data.Builds
	installed := answer.JSON200.Data.Versions
	if len(builds) == 0 {
		return errors.New("no browser is installed: see CHROMIUM_PATH, and svc-worker browsers install")
	}
	chosen := builds[0]
	if r.Version != 0 {
		i := slices.IndexFunc(builds, func(b workerapi.BrowserBuild) bool { return int(b.BrowserVersion) == r.Version })
		if i < 0 {
			return fmt.Errorf("browser version %d is not installed: %v are", r.Version, installed)
		}
		chosen = builds[i]
	}
	r.version, r.hasDisplay, r.report.Browser = int(chosen.BrowserVersion), chosen.Headful, chosen.FullVersion
	r.report.Windows = "headless and with a window"
	if _, err := exec.LookPath("Xvnc"); err != nil {
		r.hasDisplay, r.report.Windows = false, "headless only: Xvnc is not installed"
	} else if !chosen.Headful {
		r.report.Windows = "headless only: this build shows no windows"
	}
	return nil
}

// warmUp launches one browser of each kind, so that what a worker makes once is
// made.
func (r *run) warmUp(ctx context.Context) error {
	dice := rand.New(rand.NewPCG(r.Seed, 0))
	for _, screen := range []displayMode{headlessOnly, headfulOnly} {
		if screen == headfulOnly && !r.hasDisplay {
			continue
		}
		w := endScenarios()[0]
		w.display = screen
		if err := r.newScenarioRun(w, dice).execute(ctx); err != nil {
			return fmt.Errorf("the first browser: %w\n%s", err, r.worker.logTail())
		}
	}
	var err error
	r.baseline, err = r.waitUntilIdle(ctx, nil)
	return err
}

// runScenarios goes the ways until the time is up, several at once.
func (r *run) runScenarios(ctx context.Context) {
	began := time.Now()
	cards := newScenarioScheduler(r.Options)
	done := r.showProgress(began)
	defer done()
	var walking sync.WaitGroup
	for range r.Concurrency {
		walking.Go(func() {
			for ctx.Err() == nil && (r.Rounds > 0 || time.Since(began) < r.Duration) {
				w, dice, ok := cards.next(r.hasDisplay)
				if !ok {
					return
				}
				t := r.newScenarioRun(w, dice)
				if err := t.execute(ctx); err != nil && ctx.Err() == nil {
					r.log.addFailure("%s: %v", t.label(w.name), err)
				}
			}
		})
	}
	walking.Wait()
	r.report.Seconds, r.report.Skipped = time.Since(began).Seconds(), cards.skipped(r.hasDisplay)
}
