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

	Rounds  int      // goes every way so many times instead, however long that takes
	Version int      // the browser's major version; the newest
	AtOnce  int      // browsers at once; what the processors carry
	Seed    uint64   // of what is left to chance; a new one
	Ways    []string // by name, without browsers that are kept ready; all

	Patience time.Duration // for what has ended to be gone; 15 s
}

// run is one selftest.
type run struct {
	Options
	dir     string
	cloud   *fakecloud.Cloud
	site    *site
	worker  *worker
	machine *machine
	book    *book
	report  *Report

	version int  // of the browser
	canShow bool // it can show windows here
	before  idle // the worker after it was warmed up
}

// Run makes a selftest. The error means that it could not be made; what it
// found is in the report.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	if o.AtOnce == 0 {
		o.AtOnce = min(max(runtime.NumCPU()+1, 2), 8)
	}
	if o.Patience == 0 {
		o.Patience = 15 * time.Second
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if err := adopt(); err != nil {
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
	r := &run{Options: o, dir: dir, book: newBook(), machine: survey(dir), report: &Report{Seed: o.Seed, User: user()}}
	defer r.machine.stop()
	defer r.close()
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context){r.try, r.tryWarm, r.rest, r.killWorker, r.endWorker} {
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

// open starts the cloud, the pages and the worker, and warms that up.
func (r *run) open(ctx context.Context) error {
	var err error
	violated := func(text string) { r.book.failed("the worker breaks the cloud's contract: %s", text) }
	if r.cloud, err = fakecloud.Open(ctx, violated); err != nil {
		return err
	}
	r.cloud.HeartbeatEvery(2 * time.Second)
	if r.site, err = openSite(); err != nil {
		return err
	}
	if r.worker, err = newWorker(r.Options, r.dir, "wrk_"+uuid.NewString(), r.cloud, r.site); err != nil {
		return err
	}
	began := time.Now()
	if err := r.worker.start(ctx); err != nil {
		return err
	}
	r.book.took(phaseFirstStart, time.Since(began))
	status, err := r.status(ctx)
	if err != nil {
		return err
	}
	if most := int(value(status.Capacity.MaxSessions)); most > 0 {
		r.AtOnce = min(r.AtOnce, most)
	}
	if err := r.choose(ctx); err != nil {
		return err
	}
	return r.warmUp(ctx)
}

// close ends what is still there.
func (r *run) close() {
	if r.worker != nil && r.worker.done != nil {
		_ = r.worker.end() // has been told of, where it matters
	}
	if r.site != nil {
		r.site.close()
	}
	if r.cloud != nil {
		r.cloud.Close()
	}
}

// choose settles which browser is tried, and whether it can show windows.
func (r *run) choose(ctx context.Context) error {
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
	r.version, r.canShow, r.report.Browser = int(chosen.BrowserVersion), chosen.Headful, chosen.FullVersion
	r.report.Windows = "headless and with a window"
	if _, err := exec.LookPath("Xvnc"); err != nil {
		r.canShow, r.report.Windows = false, "headless only: Xvnc is not installed"
	} else if !chosen.Headful {
		r.report.Windows = "headless only: this build shows no windows"
	}
	return nil
}

// warmUp launches one browser of each kind, so that what a worker makes once is
// made.
func (r *run) warmUp(ctx context.Context) error {
	dice := rand.New(rand.NewPCG(r.Seed, 0))
	for _, screen := range []screen{headlessOnly, headfulOnly} {
		if screen == headfulOnly && !r.canShow {
			continue
		}
		w := ends()[0]
		w.screen = screen
		if err := r.newTrial(w, dice).walk(ctx); err != nil {
			return fmt.Errorf("the first browser: %w\n%s", err, r.worker.lastWords())
		}
	}
	var err error
	r.before, err = r.settle(ctx, nil)
	return err
}

// try goes the ways until the time is up, several at once.
func (r *run) try(ctx context.Context) {
	began := time.Now()
	cards := newDeck(r.Options)
	done := r.show(began)
	defer done()
	var walking sync.WaitGroup
	for range r.AtOnce {
		walking.Go(func() {
			for ctx.Err() == nil && (r.Rounds > 0 || time.Since(began) < r.Duration) {
				w, dice, ok := cards.next(r.canShow)
				if !ok {
					return
				}
				t := r.newTrial(w, dice)
				if err := t.walk(ctx); err != nil && ctx.Err() == nil {
					r.book.failed("%s: %v", t.kind(w.name), err)
				}
			}
		})
	}
	walking.Wait()
	r.report.Seconds, r.report.Missed = time.Since(began).Seconds(), cards.missed(r.canShow)
}
