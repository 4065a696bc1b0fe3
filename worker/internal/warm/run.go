package warm

import (
	"context"
	"slices"
	"time"
)

// Load is how busy the machine is.
type Load struct {
	Launching     int     // launches under way, which come first
	Capacity      int     // how many launches more are taken; more spares are of no use; negative: no limit
	CPUPercent    float64 // ofKind the last second or so
	MemoryUsed    int64   // bytes, the spares' included
	MemoryLimit   int64   // bytes
	MemoryCeiling float64 // the percentage of memory in use from which on no launch is taken; 0: none
}

// What the machine must leave for a spare to be made, in percent. A start takes
// a processor for a good part of a second. Busy processors get one now and then:
// a machine that is never calm would have no spares at all.
const (
	maxCalmCPU           = 75.0
	startHeadroom        = 10.0 // below the ceiling, the new spare counted
	keepHeadroom         = 5.0  // below the ceiling
	defaultMemoryCeiling = 90.0 // the ceiling where there is none
)

// Times between looks. After each start there is a pause.
const (
	startPause      = 300 * time.Millisecond
	busyPause       = 10 * time.Second // while the processors are busy
	shortPoll       = 250 * time.Millisecond
	longPoll        = 2 * time.Second
	measureInterval = time.Minute
	settleDelay     = 2 * time.Second // after which a new spare is weighed
	healthyAfter    = time.Minute     // a spare that lived so long says that its kind does not die at once
)

// assumedMemory is what a spare takes, in bytes, until one was weighed.
const assumedMemory = 220 << 20

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
		p.measureMemory()
		timer.Reset(p.tick(ctx))
	}
}

// tick does what is to be done now, and says when to look again.
func (p *Pool[K, S]) tick(ctx context.Context) time.Duration {
	load := p.Load()
	first, hasFirst := p.firstKind(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.draining || ctx.Err() != nil {
		return longPoll
	}
	now := p.Clock.Now()
	p.evictUnfit(now)
	wanted := p.demand.current(now)
	if hasFirst && !p.demand.everAsked {
		wanted[first] = 1
	}
	limit := p.limit(load, now)
	for len(p.ready) > limit || len(p.ready) > 0 && p.exceedsMemory(load) {
		p.removeAndStop(p.leastWanted(wanted))
		load.MemoryUsed -= p.averageMemory()
	}
	kind, ok := p.mostWanted(wanted, limit, now)
	if !ok || p.starting != nil {
		return longPoll
	}
	if now.Sub(p.lastStartAt) < pauseAfterStart(load) || !p.canStart(load) {
		return shortPoll
	}
	if len(p.ready) == limit {
		p.removeAndStop(p.leastWanted(wanted))
	}
	p.start(ctx, kind)
	return longPoll
}

// firstKind is what is kept ready before anything was asked for.
func (p *Pool[K, S]) firstKind(ctx context.Context) (kind K, ok bool) {
	p.mu.Lock()
	asked := p.demand.everAsked
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
	case load.Capacity < 0:
		return p.Size
	default:
		return min(p.Size, load.Capacity)
	}
}

// evictUnfit takes out what died without being noticed, and what is stale.
func (p *Pool[K, S]) evictUnfit(now time.Time) {
	for _, e := range slices.Clone(p.ready) {
		if dead, stale := p.health(e, now); dead || stale {
			p.discard(e, dead, now)
		}
		if now.Sub(e.readySince) >= healthyAfter {
			delete(p.backoffs, e.kind)
		}
	}
}

// leastWanted is the spare that is likely to wait the longest: the oldest of the
// kind that has the most spares for what is asked for.
func (p *Pool[K, S]) leastWanted(wanted map[K]float64) *entry[K, S] {
	return slices.MinFunc(p.ready, func(a, b *entry[K, S]) int {
		return order(p.score(a.kind, wanted), p.score(b.kind, wanted))
	})
}

// score is the share of the demand that falls to each spare of a kind.
func (p *Pool[K, S]) score(kind K, wanted map[K]float64) float64 {
	return wanted[kind] / float64(max(len(p.ofKind(kind)), 1))
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
		if now.Before(p.backoffs[kind].until) {
			continue
		}
		if w := weight / float64(len(p.ofKind(kind))+1); w > worth {
			best, worth, ok = kind, w, true
		}
	}
	if ok && len(p.ready) >= limit {
		return best, worth > replaceFactor*p.score(p.leastWanted(wanted).kind, wanted)
	}
	return best, ok
}

// pauseAfterStart is how long the machine is left alone after a start.
func pauseAfterStart(load Load) time.Duration {
	if load.CPUPercent > maxCalmCPU {
		return busyPause
	}
	return startPause
}

// canStart reports whether nothing more urgent is under way, and the machine
// has the memory for a spare more.
func (p *Pool[K, S]) canStart(load Load) bool {
	if load.Launching > 0 {
		return false
	}
	if p.Memory > 0 && p.totalMemory()+p.averageMemory() > p.Memory {
		return false
	}
	return percent(load.MemoryUsed+p.averageMemory(), load.MemoryLimit) <= load.ceiling()-startHeadroom
}

// exceedsMemory reports whether the spares take memory that browsers need.
func (p *Pool[K, S]) exceedsMemory(load Load) bool {
	return p.Memory > 0 && p.totalMemory() > p.Memory || percent(load.MemoryUsed, load.MemoryLimit) > load.ceiling()-keepHeadroom
}

func (l Load) ceiling() float64 {
	if l.MemoryCeiling <= 0 {
		return defaultMemoryCeiling
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
