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

// checkIdle checks the idle worker for leaks.
func (r *run) checkIdle(ctx context.Context) {
	now, err := r.waitUntilIdle(ctx, &r.baseline)
	if err != nil {
		r.report.check("the worker answers after the scenarios", err.Error())
		return
	}
	var extra []string
	if now.browsers > 0 {
		extra = append(extra, fmt.Sprintf("%d browsers run", now.browsers))
	}
	r.report.check("idle: no browser", extra...)
	r.report.check("idle: no zombie process", now.zombies...)
	r.report.check("idle: no more descriptors than after the first browsers", now.newDescriptors(r.baseline)...)
	r.report.check("idle: no launch directory", now.directories...)
	r.report.check("idle: no slot is in use", waitUntilEmpty(r.CleanupTimeout, r.heldSlots)...)
	r.report.Worker = WorkerUsage{
		DescriptorsBefore: len(r.baseline.descriptors), DescriptorsAfter: len(now.descriptors), ThreadsBefore: r.baseline.threads,
		ThreadsAfter: now.threads, MemoryBefore: r.baseline.memory, MemoryAfter: now.memory,
	}
	if status, err := r.status(ctx); err == nil {
		r.report.Isolation, r.report.WarmPool = status.Isolation, status.WarmPool
	}
	if health, err := r.worker.api.GetWorkerHealthWithResponse(ctx); err == nil && health.JSON200 != nil {
		r.report.MissingScripts = health.JSON200.Data.MissingScripts
	}
}

// heldSlots returns a description of the slots in use; empty if there are none.
func (r *run) heldSlots() []string {
	reserved, running := r.cloud.Slots()
	if reserved+running == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d reserved, %d running", reserved, running)}
}

// killWorker kills the worker while browsers run, and starts it again.
func (r *run) killWorker(ctx context.Context) {
	lost := scenario{name: "worker killed", run: launchOnly, launches: 1, endOptional: true}
	r.launchEachKind(ctx, lost)
	were := r.monitor.listDir(r.worker.launchesDir())
	r.worker.kill()
	died := time.Now()
	r.report.check("kill -9 of the worker: no process survives", waitUntilEmpty(r.CleanupTimeout, r.monitor.runningProcesses)...)
	r.log.recordDuration(phaseSurvivors, time.Since(died))
	began := time.Now()
	if err := r.worker.start(ctx); err != nil {
		r.report.check("kill -9 of the worker: the next worker starts", err.Error())
		return
	}
	r.log.recordDuration(phaseReboot, time.Since(began))
	r.report.check("kill -9 of the worker: the next worker starts")
	var found []string
	for _, dir := range were {
		if _, err := os.Lstat(dir); err == nil {
			found = append(found, dir)
		}
	}
	r.report.check("kill -9 of the worker: the next worker removes the leftovers", append(found, waitUntilEmpty(r.CleanupTimeout, r.monitor.newDisplayFiles)...)...)
	r.report.check("kill -9 of the worker: its slots are released", waitUntilEmpty(r.CleanupTimeout, r.heldSlots)...)
	r.log.recordDuration(phaseSlotsReleased, time.Since(began))
}

func launchOnly(ctx context.Context, t *scenarioRun) error { return t.launch(ctx) }

// launchEachKind launches a browser of each kind and leaves them running.
func (r *run) launchEachKind(ctx context.Context, w scenario) {
	screens := []displayMode{headlessOnly, headfulOnly}
	if !r.hasDisplay {
		screens = screens[:1]
	}
	var launching sync.WaitGroup
	for i, screen := range screens {
		w.display = screen
		t := r.newScenarioRun(w, rand.New(rand.NewPCG(r.Seed, uint64(1<<32+i))))
		launching.Go(func() {
			if err := t.execute(ctx); err != nil {
				r.log.addFailure("%s: %v", t.label(w.name), err)
			}
		})
	}
	launching.Wait()
}

// stopWorker stops the worker with SIGTERM while browsers run, and checks for
// leaks.
func (r *run) stopWorker(ctx context.Context) {
	drained := scenario{name: "worker stopped by SIGTERM", run: launchOnly, launches: 1, reasons: []string{"drain"}}
	r.launchEachKind(ctx, drained)
	began := time.Now()
	var problems []string
	if err := r.worker.stop(); err != nil {
		problems = append(problems, err.Error())
	}
	r.log.recordDuration(phaseDrained, time.Since(began))
	r.report.check("SIGTERM stops the worker cleanly", problems...)
	r.report.check("after stop: no slot is in use", r.heldSlots()...)
	r.site.close()
	r.cloud.Close()
	r.monitor.stop()
	r.report.check("after stop: no process", waitUntilEmpty(r.CleanupTimeout, r.monitor.leftoverProcesses)...)
	r.report.check("after stop: no listening port", waitUntilEmpty(r.CleanupTimeout, r.monitor.newListeners)...)
	r.report.check("after stop: no display, lock or link in /tmp", waitUntilEmpty(r.CleanupTimeout, r.monitor.newDisplayFiles)...)
	r.report.check("after stop: no mount", r.monitor.leftoverMounts()...)
	r.report.check("after stop: no control group", waitUntilEmpty(r.CleanupTimeout, r.monitor.leftoverCgroups)...)
	r.report.check("after stop: no launch directory", r.monitor.listDir(r.worker.launchesDir())...)
	r.report.check("after stop: no report waits for the cloud", r.monitor.listDir(filepath.Join(r.worker.dir, "reports"))...)
}

// summarize completes the report.
func (r *run) summarize() {
	problems := r.log.audit(r.cloud.Log())
	r.report.check("each session was reported once, with its end reason", problems...)
	r.log.mu.Lock()
	failures := r.log.failures
	r.log.mu.Unlock()
	r.report.check("every scenario succeeded", failures...)
	r.report.Phases, r.report.Done = r.log.phaseSummary(), r.log.tallies()
	r.report.Concurrency, r.report.Processes = r.Concurrency, r.monitor.maxProcesses
	if !r.report.OK() {
		log := filepath.Join(os.TempDir(), fmt.Sprintf("svc-selftest-%d.log", r.Seed))
		if err := r.worker.copyLog(log); err == nil {
			r.report.Log = log
		}
	}
	for i := range r.report.Checks {
		r.report.Checks[i].Problems = truncateProblems(r.report.Checks[i].Problems)
	}
}

// truncateProblems limits the number and length of problems.
func truncateProblems(problems []string) []string {
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
