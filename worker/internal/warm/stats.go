package warm

import (
	"maps"
	"slices"
)

// Counts since the start.
type Counts struct {
	Claimed int64          // claims that found a spare
	Missed  map[Miss]int64 // and those that did not, by why
	Started int64          // spares that were made
	Failed  int64          // and those that could not be
	Died    int64          // while they waited
	Stale   int64          // waited for too long, or were overtaken
}

// Stats is the state of a pool.
type Stats[K comparable] struct {
	Size     int            // the most spares
	Ready    []KindCount[K] // by kind; none is empty
	Starting bool
	Draining bool
	Memory   int64 // bytes that the spares take together
	Counts
}

// KindCount is how many spares of a kind are ready.
type KindCount[K comparable] struct {
	Kind  K
	Count int
}

// Stats returns the pool's state. It costs next to nothing.
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
