package warm

import (
	"context"
	"slices"
	"time"
)

// Load is how busy the machine is.
type Load struct {
	Launching     int     // launches under way, which come first
	Room          int     // how many launches more are taken; more spares are of no use; negative: no limit
	CPUPercent    float64 // of the last second or so
	MemoryUsed    int64   // bytes, the spares' included
	MemoryLimit   int64   // bytes
	MemoryCeiling float64 // the percentage of memory in use from which on no launch is taken; 0: none
}

// What the machine must leave for a spare to be made, in percent. A start takes
// a processor for a good part of a second. Busy processors get one now and then:
// a machine that is never calm would have no spares at all.
const (
	calmCPU       = 75.0
	roomToStart   = 10.0 // below the ceiling, the new spare counted
	roomToKeep    = 5.0  // below the ceiling
	highestMemory = 90.0 // the ceiling where there is none
)

// Times between looks. After each start there is a pause.
const (
	startPause  = 300 * time.Millisecond
	busyPause   = 10 * time.Second // while the processors are busy
	lookOften   = 250 * time.Millisecond
	lookSeldom  = 2 * time.Second
	weighEvery  = time.Minute
	settleTime  = 2 * time.Second // after which a new spare is weighed
	survivedFor = time.Minute     // a spare that lived so long says that its kind does not die at once
)

// presumed is what a spare takes, in bytes, until one was weighed.
const presumed = 220 << 20

// Run keeps the pool until ctx is done. Close lets go of what it kept.
func (p *Pool[K, S]) Run(ctx context.Context) {
	if p.Size <= 0 {
		return
	}
	p.mu.Lock()
	p.demand.last = p.Clock.Now()
	p.mu.Unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-p.wake:
		}
		p.weigh()
		timer.Reset(p.turn(ctx))
	}
}

// turn does what is to be done now, and says when to look again.
func (p *Pool[K, S]) turn(ctx context.Context) time.Duration {
	load := p.Load()
	first, hasFirst := p.first(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.draining || ctx.Err() != nil {
		return lookSeldom
	}
	now := p.Clock.Now()
	p.weed(now)
	wanted := p.demand.kinds(now)
	if hasFirst && !p.demand.any {
		wanted[first] = 1
	}
	limit := p.limit(load, now)
	for len(p.ready) > limit || len(p.ready) > 0 && p.tooHeavy(load) {
		p.retire(p.leastWanted(wanted))
		load.MemoryUsed -= p.weight()
	}
	kind, ok := p.mostWanted(wanted, limit, now)
	if !ok || p.starting != nil {
		return lookSeldom
	}
	if now.Sub(p.rested) < pauseOf(load) || !p.affordable(load) {
		return lookOften
	}
	if len(p.ready) == limit {
		p.retire(p.leastWanted(wanted))
	}
	p.start(ctx, kind)
	return lookSeldom
}

// first is what is kept ready before anything was asked for.
func (p *Pool[K, S]) first(ctx context.Context) (kind K, ok bool) {
	p.mu.Lock()
	asked := p.demand.any
	p.mu.Unlock()
	if asked || p.First == nil {
		return kind, false
	}
	return p.First(ctx)
}

// limit is how many spares are of use.
func (p *Pool[K, S]) limit(load Load, now time.Time) int {
	switch {
	case now.Sub(p.demand.last) >= p.Idle:
		return 0
	case load.Room < 0:
		return p.Size
	default:
		return min(p.Size, load.Room)
	}
}

// weed takes out what died without being noticed, and what is stale.
func (p *Pool[K, S]) weed(now time.Time) {
	for _, e := range slices.Clone(p.ready) {
		if dead, stale := p.unfit(e, now); dead || stale {
			p.discard(e, dead, now)
		}
		if now.Sub(e.since) >= survivedFor {
			delete(p.deaths, e.kind)
		}
	}
}

// leastWanted is the spare that is likely to wait the longest: the oldest of the
// kind that has the most spares for what is asked for.
func (p *Pool[K, S]) leastWanted(wanted map[K]float64) *entry[K, S] {
	return slices.MinFunc(p.ready, func(a, b *entry[K, S]) int {
		return order(p.worth(a.kind, wanted), p.worth(b.kind, wanted))
	})
}

// worth is the share of the demand that falls to each spare of a kind.
func (p *Pool[K, S]) worth(kind K, wanted map[K]float64) float64 {
	return wanted[kind] / float64(max(len(p.of(kind)), 1))
}

// mostWanted is the kind whose next spare would be the likeliest to be claimed.
// When the pool is full it must be clearly likelier than the one that it would
// replace.
func (p *Pool[K, S]) mostWanted(wanted map[K]float64, limit int, now time.Time) (best K, ok bool) {
	if limit == 0 {
		return best, false
	}
	worth := 0.0
	for kind, weight := range wanted {
		if now.Before(p.deaths[kind].until) {
			continue
		}
		if w := weight / float64(len(p.of(kind))+1); w > worth {
			best, worth, ok = kind, w, true
		}
	}
	if ok && len(p.ready) >= limit {
		return best, worth > contested*p.worth(p.leastWanted(wanted).kind, wanted)
	}
	return best, ok
}

// pauseOf is how long the machine is left alone after a start.
func pauseOf(load Load) time.Duration {
	if load.CPUPercent > calmCPU {
		return busyPause
	}
	return startPause
}

// affordable reports whether nothing more urgent is under way, and the machine
// has the memory for a spare more.
func (p *Pool[K, S]) affordable(load Load) bool {
	if load.Launching > 0 {
		return false
	}
	if p.Memory > 0 && p.memory()+p.weight() > p.Memory {
		return false
	}
	return percent(load.MemoryUsed+p.weight(), load.MemoryLimit) <= load.ceiling()-roomToStart
}

// tooHeavy reports whether the spares take memory that browsers need.
func (p *Pool[K, S]) tooHeavy(load Load) bool {
	return p.Memory > 0 && p.memory() > p.Memory || percent(load.MemoryUsed, load.MemoryLimit) > load.ceiling()-roomToKeep
}

func (l Load) ceiling() float64 {
	if l.MemoryCeiling <= 0 {
		return highestMemory
	}
	return l.MemoryCeiling
}

func percent(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

func order(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
