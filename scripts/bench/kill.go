package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/browser-svc/svc/shared/benchresult"
)

const (
	killGrace       = 100 * time.Millisecond // after this time, no process may remain
	browsersPerKill = 2                      // browsers that run when the worker is killed
)

// kill counts the processes that remain after a worker is killed.
func (b *bench) kill(ctx context.Context) (_ []benchresult.Row, err error) {
	w, err := b.worker(ctx, "killed", "WARM_POOL=1")
	if err != nil {
		return nil, err
	}
	left, had, longest := 0, 0, killGrace
	for range b.kills {
		for range browsersPerKill {
			if _, err := w.launch(ctx); err != nil {
				return nil, err
			}
		}
		before := descendants(w.PID())
		if len(before) < browsersPerKill {
			return nil, fmt.Errorf("the worker's browsers are not among its processes: %v", before)
		}
		w.Kill()
		killed := time.Now()
		if err := pause(ctx, killGrace); err != nil {
			return nil, err
		}
		survivors := running(before)
		had, left = had+len(before), left+len(survivors)
		for len(survivors) > 0 && time.Since(killed) < readyTimeout {
			longest = max(longest, time.Since(killed))
			if err := pause(ctx, 10*time.Millisecond); err != nil {
				return nil, err
			}
			survivors = running(survivors)
		}
		if err := w.run(ctx); err != nil {
			return nil, err
		}
	}
	than := fmt.Sprintf("of %d processes", had)
	if left > 0 {
		than += fmt.Sprintf(", the last one for %d ms", longest.Milliseconds())
	}
	return []benchresult.Row{{
		What: fmt.Sprintf("processes left 100 ms after kill -9 of the worker, %d rounds", b.kills), Unit: "processes", Ours: float64(left),
		Than: than, Target: benchresult.FigureAtMost(0),
	}}, nil
}

// running returns the processes that still run.
func running(all []process) []process {
	now := processes()
	return slices.DeleteFunc(slices.Clone(all), func(p process) bool { return !p.alive(now) })
}
