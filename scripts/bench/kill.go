package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/browser-svc/svc/shared/benchresult"
)

const (
	killGrace       = 100 * time.Millisecond // after which nothing may be left
	browsersPerKill = 2                      // browsers that run when their worker is killed
)

// kill counts what is left of a worker's processes soon after its end.
func (b *bench) kill(ctx context.Context) (_ []benchresult.Row, err error) {
	w, err := b.worker(ctx, "killed", "WARM_POOL=1")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	left, had, longest := 0, 0, killGrace
	for range b.kills {
		for range browsersPerKill {
			if _, err := w.launch(ctx); err != nil {
				return nil, err
			}
		}
		before := descendants(w.pid())
		if len(before) < browsersPerKill {
			return nil, fmt.Errorf("the worker's browsers are not among its processes: %v", before)
		}
		w.kill()
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
	than := fmt.Sprintf("of %d that ran", had)
	if left > 0 {
		than += fmt.Sprintf(", the last for %d ms", longest.Milliseconds())
	}
	return []benchresult.Row{{
		What: fmt.Sprintf("survivors 100 ms after kill -9 of the worker, %d rounds", b.kills), Unit: "processes", Ours: float64(left),
		Than: than, Target: benchresult.FigureAtMost(0),
	}}, nil
}

// running are those that have not ended.
func running(of []process) []process {
	now := processes()
	return slices.DeleteFunc(slices.Clone(of), func(p process) bool { return !p.alive(now) })
}
