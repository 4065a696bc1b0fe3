package selftest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/browser-svc/svc/gen/workerapi"
)

// idleState is what a worker without sessions holds.
type idleState struct {
	descriptors []string
	directories []string // of launches
	zombies     []string // processes that the worker has not reaped
	browsers    int      // number of running browsers
	threads     int64
	memory      int64 // memory of the worker process, in bytes
}

// waitUntilIdle drains the worker, so that it keeps no warm browsers, waits
// until it is idle and holds no more than before, if given, returns what it
// holds, and resumes it. The wait is limited.
func (r *run) waitUntilIdle(ctx context.Context, before *idleState) (idleState, error) {
	if _, err := r.worker.api.DrainWorkerWithResponse(ctx); err != nil {
		return idleState{}, err
	}
	held, err := r.pollUntilIdle(ctx, before)
	if err != nil {
		return idleState{}, err
	}
	_, err = r.worker.api.ResumeWorkerWithResponse(ctx)
	return held, err
}

func (r *run) pollUntilIdle(ctx context.Context, before *idleState) (idleState, error) {
	if err := r.triggerGC(ctx); err != nil {
		return idleState{}, err
	}
	deadline := time.Now().Add(r.CleanupTimeout)
	steady := 0
	for last := (idleState{}); ; {
		status, err := r.status(ctx)
		if err != nil {
			return idleState{}, err
		}
		now := r.measure()
		rests := status.Capacity.Running == 0 && status.Capacity.Launching == 0 && status.WarmPool.Starting == 0 && now.browsers == 0
		if steady++; !rests || len(now.descriptors) != len(last.descriptors) {
			steady = 0
		}
		if steady >= 5 && (before == nil || len(now.newDescriptors(*before)) == 0) || time.Now().After(deadline) {
			return now, nil
		}
		last = now
		if steady >= 5 {
			if err := r.triggerGC(ctx); err != nil {
				return idleState{}, err
			}
		}
		select {
		case <-ctx.Done():
			return idleState{}, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// triggerGC sends enough requests for the worker to collect garbage: Go caches the
// pipes that it uses for splice, which would look like a leak.
func (r *run) triggerGC(ctx context.Context) error {
	const enough = 300
	for range enough {
		if _, err := r.status(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) measure() idleState {
	pid := r.worker.pid()
	now := idleState{descriptors: descriptors(pid, portOfURL(r.cloud.URL)), directories: r.monitor.listDir(r.worker.launchesDir()), memory: memoryOf(pid)}
	now.threads = procStatusValue("/proc/"+strconv.Itoa(pid), "Threads")
	for _, p := range descendants(pid) {
		switch {
		case p.zombie:
			now.zombies = append(now.zombies, p.String())
		case isBrowser(p):
			now.browsers++
		}
	}
	return now
}

// newDescriptors lists descriptors that did not exist before; none if their
// number has not grown.
func (i idleState) newDescriptors(before idleState) []string {
	if len(i.descriptors) <= len(before.descriptors) {
		return nil
	}
	found := slices.Clone(i.descriptors)
	for _, d := range before.descriptors {
		if at := slices.Index(found, d); at >= 0 {
			found = slices.Delete(found, at, at+1)
		}
	}
	return found
}

// memoryOf returns a process's proportional share of memory in bytes, or its
// resident memory if that is not readable.
func memoryOf(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err == nil {
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Pss:" {
				kilobytes, _ := strconv.ParseInt(fields[1], 10, 64)
				return kilobytes << 10
			}
		}
	}
	kilobytes := procStatusValue("/proc/"+strconv.Itoa(pid), "VmRSS")
	return kilobytes << 10
}

func portOfURL(address string) int {
	port, _ := strconv.Atoi(address[strings.LastIndexByte(address, ':')+1:])
	return port
}

// status returns the worker's fleet status.
func (r *run) status(ctx context.Context) (workerapi.FleetStatus, error) {
	answer, err := r.worker.api.GetFleetStatusWithResponse(ctx)
	if err != nil {
		return workerapi.FleetStatus{}, err
	}
	if answer.JSON200 == nil {
		return workerapi.FleetStatus{}, fmt.Errorf("unexpected status response %s: %s", answer.Status(), answer.Body)
	}
	return answer.JSON200.Data, nil
}
