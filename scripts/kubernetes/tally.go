package main

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// tally counts the launches and sessions of several goroutines.
type tally struct {
	mu       sync.Mutex
	workers  map[string]int // sessions of each worker
	took     []time.Duration
	failures []error // failed launches
	lost     []error // sessions that ended before their time
}

func (t *tally) launched(s session, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.workers == nil {
		t.workers = make(map[string]int)
	}
	t.workers[s.worker]++
	t.took = append(t.took, took)
}

func (t *tally) failed(list *[]error, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*list = append(*list, err)
}

// result reports the figures, and an error if a launch failed or a session was lost.
func (t *tally) result(what string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.Sort(t.took)
	median, longest := time.Duration(0), time.Duration(0)
	if len(t.took) > 0 {
		median, longest = t.took[len(t.took)/2], t.took[len(t.took)-1]
	}
	logf("%s: %d launches, %d failed, %d sessions ended before their time; median %d ms, longest %d ms; by worker %v",
		what, len(t.took)+len(t.failures), len(t.failures), len(t.lost), median.Milliseconds(), longest.Milliseconds(), t.workers)
	return errors.Join(append(slices.Clone(t.failures), t.lost...)...)
}
