package warm

import (
	"maps"
	"slices"
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
	Size     int            // maximum number of browsers
	Ready    []KindCount[K] // kinds with at least one browser
	Starting bool
	Draining bool
	Memory   int64 // of all browsers, in bytes
	Counts
}

// KindCount is the number of ready browsers of a kind.
type KindCount[K comparable] struct {
	Kind  K
	Count int
}

// Stats returns the pool's state. It is cheap.
func (p *Pool[K, S]) Stats() Stats[K] {
	p.mu.Lock()
	defer p.mu.Unlock()
	stats := Stats[K]{
		Size: p.Size, Starting: p.starting != nil, Draining: p.draining, Memory: p.totalMemory(), Counts: p.counts,
	}
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
