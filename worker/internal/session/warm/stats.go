package warm

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Counts since the start.
type Counts struct {
	Claimed int64          // successful claims
	Missed  map[Miss]int64 // other claims, by reason
	Started int64          // successful starts
	Failed  int64          // failed starts
	Died    int64          // browsers that died while ready
	Stale   int64          // browsers that became too old or outdated
}

// Stats is the state of a pool.
type Stats[K comparable] struct {
	Size     int            // minimum number of browsers
	Max      int            // maximum number of browsers
	Target   int            // how many browsers the pool wants now
	Reason   Reason         // of Target
	Ready    []KindCount[K] // kinds with at least one browser
	Demand   []KindDemand[K]
	Starting int
	Draining bool
	Memory   int64 // of all browsers, in bytes
	Counts
}

// KindCount is the number of ready browsers of a kind.
type KindCount[K comparable] struct {
	Kind  K
	Count int
}

// KindDemand is the recent demand for a kind.
type KindDemand[K comparable] struct {
	Kind      K
	PerMinute float64       // launches
	StartTime time.Duration // average time from a claim until another browser is ready; 0: none yet
	Stock     int           // how many browsers of the kind the demand requires
}

// Stats returns the pool's state. It is cheap.
func (p *Pool[K, S]) Stats() Stats[K] {
	p.mu.Lock()
	defer p.mu.Unlock()
	stats := Stats[K]{
		Size: p.Size, Max: p.Max, Starting: len(p.starting), Draining: p.draining, Memory: p.totalMemory(), Counts: p.counts,
		Demand: p.kindDemand(),
	}
	stats.Target, stats.Reason = p.target()
	stats.Missed = maps.Clone(p.counts.Missed)
	for _, e := range p.ready {
		i := slices.IndexFunc(stats.Ready, func(h KindCount[K]) bool { return h.Kind == e.kind })
		if i < 0 {
			stats.Ready, i = append(stats.Ready, KindCount[K]{Kind: e.kind}), len(stats.Ready)
		}
		stats.Ready[i].Count++
	}
	return stats
}

// target returns the target of the last tick.
func (p *Pool[K, S]) target() (int, Reason) {
	switch {
	case p.Size <= 0:
		return 0, Off
	case p.draining:
		return 0, Drained
	default:
		return p.last.target, p.last.reason
	}
}

// kindDemand returns the demand for each kind that has a weight, highest first.
func (p *Pool[K, S]) kindDemand() (all []KindDemand[K]) {
	now := p.Clock.Now()
	for kind := range p.demand.current(now) {
		times := p.durations[kind]
		found := KindDemand[K]{Kind: kind, PerMinute: 60 * p.demand.perSecond(kind, now), Stock: p.demand.stock(kind, times, now)}
		if times.start.measured {
			found.StartTime = times.replacement()
		}
		all = append(all, found)
	}
	slices.SortFunc(all, func(a, b KindDemand[K]) int {
		return cmp.Or(b.Stock-a.Stock, cmp.Compare(b.PerMinute, a.PerMinute), cmp.Compare(fmt.Sprint(a.Kind), fmt.Sprint(b.Kind)))
	})
	return all
}
