package selftest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// rest looks at the worker when it has nothing to do any more.
func (r *run) rest(ctx context.Context) {
	now, err := r.settle(ctx, &r.before)
	if err != nil {
		r.report.check("the worker answers in the end", err.Error())
		return
	}
	var extra []string
	if now.browsers > 0 {
		extra = append(extra, fmt.Sprintf("%d browsers run", now.browsers))
	}
	r.report.check("at rest: no browser", extra...)
	r.report.check("at rest: no dead process that the worker did not wait for", now.dead...)
	r.report.check("at rest: no more descriptors than after the first browsers", now.grown(r.before)...)
	r.report.check("at rest: no launch directory", now.directories...)
	r.report.check("at rest: no slot is held in the cloud", left(r.Patience, r.slots)...)
	r.report.Worker = Weight{
		DescriptorsBefore: len(r.before.descriptors), DescriptorsAfter: len(now.descriptors), ThreadsBefore: r.before.threads,
		ThreadsAfter: now.threads, MemoryBefore: r.before.memory, MemoryAfter: now.memory,
	}
	if status, err := r.status(ctx); err == nil {
		r.report.Isolation, r.report.WarmPool = status.Isolation, status.WarmPool
	}
}

// slots that the cloud holds.
func (r *run) slots() []string {
	reserved, running := r.cloud.Slots()
	if reserved+running == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d reserved, %d running", reserved, running)}
}

// survivorTime is how soon after its worker's death a browser is gone.
const survivorTime = 2 * time.Second

// killWorker kills the worker while browsers run, and starts it again.
func (r *run) killWorker(ctx context.Context) {
	lost := way{name: "worker killed", play: launchAlone, launches: 1, silent: true}
	r.launchSome(ctx, lost)
	were := r.machine.entries(r.worker.launches())
	r.worker.kill()
	died := time.Now()
	r.report.check("kill -9 of the worker: no process survives it", left(survivorTime, r.machine.living)...)
	r.book.took(phaseSurvivors, time.Since(died))
	began := time.Now()
	if err := r.worker.start(ctx); err != nil {
		r.report.check("kill -9 of the worker: the next one starts", err.Error())
		return
	}
	r.book.took(phaseReboot, time.Since(began))
	r.report.check("kill -9 of the worker: the next one starts")
	var found []string
	for _, dir := range were {
		if _, err := os.Lstat(dir); err == nil {
			found = append(found, dir)
		}
	}
	r.report.check("kill -9 of the worker: the next one removes what was left", append(found, left(survivorTime, r.machine.screens)...)...)
	r.report.check("kill -9 of the worker: its slots are given back", left(r.Patience, r.slots)...)
	r.book.took(phaseSlotsBack, time.Since(began))
}

func launchAlone(ctx context.Context, t *trial) error { return t.launch(ctx) }

// launchSome launches a browser of each kind and leaves them alone.
func (r *run) launchSome(ctx context.Context, w way) {
	screens := []screen{headlessOnly, headfulOnly}
	if !r.canShow {
		screens = screens[:1]
	}
	var launching sync.WaitGroup
	for i, screen := range screens {
		w.screen = screen
		t := r.newTrial(w, rand.New(rand.NewPCG(r.Seed, uint64(1<<32+i))))
		launching.Go(func() {
			if err := t.walk(ctx); err != nil {
				r.book.failed("%s: %v", t.kind(w.name), err)
			}
		})
	}
	launching.Wait()
}

// endWorker ends the worker in order while browsers run, and looks at what is
// left of everything.
func (r *run) endWorker(ctx context.Context) {
	drained := way{name: "worker ended by SIGTERM", play: launchAlone, launches: 1, reasons: []string{"drain"}}
	r.launchSome(ctx, drained)
	began := time.Now()
	var problems []string
	if err := r.worker.end(); err != nil {
		problems = append(problems, err.Error())
	}
	r.book.took(phaseDrained, time.Since(began))
	r.report.check("SIGTERM ends the worker in order", problems...)
	r.report.check("in the end: no slot is held in the cloud", r.slots()...)
	r.site.close()
	r.cloud.Close()
	r.machine.stop()
	r.report.check("in the end: no process", left(r.Patience, r.machine.processes)...)
	r.report.check("in the end: no port is listened on", left(survivorTime, r.machine.listening)...)
	r.report.check("in the end: no display, lock or link in /tmp", left(survivorTime, r.machine.screens)...)
	r.report.check("in the end: no mount", r.machine.mounts()...)
	r.report.check("in the end: no control group", left(survivorTime, r.machine.groups)...)
	r.report.check("in the end: no launch directory", r.machine.entries(r.worker.launches())...)
	r.report.check("in the end: no report waits for the cloud", r.machine.entries(filepath.Join(r.worker.dir, "reports"))...)
}

// summarize closes the books.
func (r *run) summarize() {
	problems := r.book.audit(r.cloud.Log())
	r.report.check("each session was told to the cloud once, and ended for its reason", problems...)
	r.book.mu.Lock()
	failures := r.book.failures
	r.book.mu.Unlock()
	r.report.check("every way went as it should", failures...)
	r.report.Phases, r.report.Done = r.book.summary(), r.book.tally()
	r.report.AtOnce, r.report.Processes = r.AtOnce, r.machine.most
	if !r.report.OK() {
		log := filepath.Join(os.TempDir(), fmt.Sprintf("svc-selftest-%d.log", r.Seed))
		if err := r.worker.keepLog(log); err == nil {
			r.report.Log = log
		}
	}
	for i := range r.report.Checks {
		r.report.Checks[i].Problems = shortened(r.report.Checks[i].Problems)
	}
}

// shortened keeps what a person may read.
func shortened(problems []string) []string {
	const most, longest = 10, 1000
	rest := len(problems) - most
	if rest > 0 {
		problems = append(problems[:most:most], fmt.Sprintf("and %d more", rest))
	}
	for i, problem := range problems {
		if len(problem) > longest {
			problems[i] = strings.ToValidUTF8(problem[:longest], "") + "..."
		}
	}
	return problems
}
