package selftest

import (
	"math/rand/v2"
	"slices"
	"sync"
)

// scenarioScheduler schedules all scenarios in random order, in rounds.
type scenarioScheduler struct {
	seed   uint64
	all    []scenario
	rounds int // rounds; 0 for any number

	mu        sync.Mutex
	rng       *rand.Rand
	remaining []scenario
	round     int
	scheduled uint64
}

func newScenarioScheduler(o Options) *scenarioScheduler {
	all := slices.DeleteFunc(scenarios(), func(w scenario) bool { return len(o.Scenarios) > 0 && !slices.Contains(o.Scenarios, w.name) })
	return &scenarioScheduler{seed: o.Seed, all: all, rounds: o.Rounds, rng: rand.New(rand.NewPCG(o.Seed, 1))}
}

// next returns the next scenario with its own random source; false when all
// rounds are done.
func (d *scenarioScheduler) next(canShow bool) (scenario, *rand.Rand, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.remaining) == 0 {
		if d.rounds > 0 && d.round == d.rounds {
			return scenario{}, nil, false
		}
		d.round++
		d.remaining = slices.DeleteFunc(slices.Clone(d.all), func(w scenario) bool { return w.display == headfulOnly && !canShow })
		d.rng.Shuffle(len(d.remaining), func(i, j int) { d.remaining[i], d.remaining[j] = d.remaining[j], d.remaining[i] })
	}
	if len(d.remaining) == 0 {
		return scenario{}, nil, false
	}
	w := d.remaining[0]
	d.remaining = d.remaining[1:]
	d.scheduled++
	return w, rand.New(rand.NewPCG(d.seed, 1+d.scheduled)), true
}

// skipped returns the scenarios that never ran, because of time or missing
// headful mode.
func (d *scenarioScheduler) skipped(canShow bool) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found []string
	for _, w := range d.all {
		noWindow := w.display == headfulOnly && !canShow
		isWaiting := slices.ContainsFunc(d.remaining, func(o scenario) bool { return o.name == w.name })
		if noWindow || d.round == 0 || d.round == 1 && isWaiting {
			found = append(found, w.name)
		}
	}
	return found
}
