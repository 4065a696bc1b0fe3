package warm

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Load is the load of the machine.
type Load struct {
	Launching     int       // launches in progress; they have priority
	Capacity      int       // how many more launches the machine admits; negative: no limit
	CPUPercent    float64   // over about the last second
	MemoryUsed    int64     // bytes, including warm browsers
	MemoryLimit   int64     // bytes
	MemoryCeiling float64   // launches are rejected at or above this memory percentage; 0: no limit
	At            time.Time // of the measurement
	CPUs          int       // starts at once that demand justifies; 0: one
}

// Limits, in percent, for starting a browser. A start uses most of a processor for part
// of a second. A busy machine still fills the minimum, but less often, because it might
// never be calm. Browsers that replace those of regular launches start at once also on a
// busy machine: otherwise these launches would start them.
const (
	maxCalmCPU           = 75.0
	startHeadroom        = 10.0 // below the ceiling, including the new browser
	keepHeadroom         = 5.0  // below the ceiling
	defaultMemoryCeiling = 90.0 // if there is no ceiling
)

// Bursts of launches. A start for the pool would only delay their browsers, and then their
// pages.
const (
	maxLaunching = 4               // launches in progress for each processor; more are a burst
	burstGrace   = 3 * time.Second // after a burst, for its browsers to load their pages
)

// Intervals of the loop. There is a pause after each start.
const (
	startPause      = 300 * time.Millisecond
	busyPause       = 10 * time.Second      // while the CPU is busy
	launchGrace     = 30 * time.Millisecond // for a launch with a warm browser to end, before a start
	gracePoll       = 10 * time.Millisecond
	shortPoll       = 250 * time.Millisecond
	longPoll        = 2 * time.Second
	measureInterval = time.Minute
	settleDelay     = 2 * time.Second // before a new browser is measured
	healthyAfter    = time.Minute     // a browser of this age resets the backoff of its kind
)

// assumedMemory is the memory of a browser, in bytes, before it is measured.
const assumedMemory = 220 << 20

// Run maintains the pool until ctx is done. Close then stops the browsers.
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

// tick stops and starts browsers as needed. It returns the delay until the next
// tick.
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
	weights := p.demand.current(now)
	if hasFirst && !p.demand.claimed {
		weights[first] = 1
	}
	p.last = p.plan(load, weights, now)
	p.forgetLacks()
	for len(p.ready) > p.last.target || len(p.ready) > 0 && p.exceedsMemory(load) {
		if len(p.ready) <= p.last.target {
			p.last.reason = Memory
		}
		p.removeAndStop(p.leastWanted(weights))
		load.MemoryUsed -= p.averageMemory()
	}
	for {
		if started, delay := p.startNext(ctx, load, now); !started {
			return delay
		}
	}
}

// startNext starts the next browser, or returns when to try again.
func (p *Pool[K, S]) startNext(ctx context.Context, load Load, now time.Time) (started bool, delay time.Duration) {
	if p.inBurst(load, now) {
		return false, shortPoll
	}
	kind, urgent := p.mostUrgent(p.last, now)
	if urgent && p.held() >= p.last.target {
		urgent = false // only by replacing another kind
	}
	if !urgent {
		var ok bool
		if kind, ok = p.mostWanted(p.last.weights, p.last.target, now); !ok || len(p.starting) > 0 {
			return false, longPoll
		}
		if load.Launching > 0 || now.Sub(p.lastStartEnd) < pauseAfterStart(load) {
			return false, shortPoll
		}
	}
	if len(p.starting) >= p.startsAtOnce(kind, load) {
		return false, longPoll
	}
	if !p.fitsMemory(kind, load) {
		p.last.reason = Memory
		return false, shortPoll
	}
	if urgent && p.yields(load, now) {
		return false, gracePoll
	}
	if len(p.ready) >= p.last.target {
		p.removeAndStop(p.leastWanted(p.last.weights))
	}
	p.lacksSince = time.Time{}
	p.start(ctx, kind)
	return true, 0
}

// startsAtOnce returns how many starts may be in progress: one for each processor, but only
// one on a busy machine with at least half of the stock.
func (p *Pool[K, S]) startsAtOnce(kind K, load Load) int {
	if load.CPUPercent > maxCalmCPU && 2*p.available(kind) >= p.last.stock[kind] {
		return 1
	}
	return max(load.CPUs, 1)
}

// inBurst reports whether there is a burst of launches, or was one recently.
func (p *Pool[K, S]) inBurst(load Load, now time.Time) bool {
	if load.Launching > maxLaunching*max(load.CPUs, 1) {
		p.lastBurst = now
		clear(p.lacks) // the wait says nothing about regular launches
	}
	return now.Sub(p.lastBurst) < burstGrace
}

// yields reports whether a start should wait for a launch in progress, which takes
// milliseconds if it has a warm browser.
func (p *Pool[K, S]) yields(load Load, now time.Time) bool {
	if load.Launching == 0 {
		return false
	}
	if p.lacksSince.IsZero() {
		p.lacksSince = now
	}
	return now.Sub(p.lacksSince) < launchGrace
}

// firstKind returns the kind to keep ready before the first claim.
func (p *Pool[K, S]) firstKind(ctx context.Context) (kind K, ok bool) {
	p.mu.Lock()
	hasDemand := p.demand.claimed
	p.mu.Unlock()
	if hasDemand || p.First == nil {
		return kind, false
	}
	return p.First(ctx)
}

// evictUnfit removes dead and stale browsers.
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

// leastWanted returns the browser that will probably wait longest: the oldest of the
// kind with the most browsers relative to its demand.
func (p *Pool[K, S]) leastWanted(weights map[K]float64) *entry[K, S] {
	return slices.MinFunc(p.ready, func(a, b *entry[K, S]) int {
		return cmp.Compare(p.score(a.kind, weights), p.score(b.kind, weights))
	})
}

// score returns the demand for a kind, divided by its number of browsers.
func (p *Pool[K, S]) score(kind K, weights map[K]float64) float64 {
	return weights[kind] / float64(max(len(p.ofKind(kind)), 1))
}

// mostWanted returns the kind whose next browser is most likely to be claimed. If
// the pool is full, its score must exceed that of the replaced browser by
// replaceFactor.
func (p *Pool[K, S]) mostWanted(weights map[K]float64, limit int, now time.Time) (best K, ok bool) {
	if limit == 0 {
		return best, false
	}
	bestScore := 0.0
	for kind, weight := range weights {
		if now.Before(p.backoffs[kind].until) {
			continue
		}
		if score := weight / float64(len(p.ofKind(kind))+1); score > bestScore {
			best, bestScore, ok = kind, score, true
		}
	}
	if ok && len(p.ready) >= limit {
		return best, bestScore > replaceFactor*p.score(p.leastWanted(weights).kind, weights)
	}
	return best, ok
}

// pauseAfterStart returns the pause after a start.
func pauseAfterStart(load Load) time.Duration {
	if load.CPUPercent > maxCalmCPU {
		return busyPause
	}
	return startPause
}

// fitsMemory reports whether the machine has memory for another browser of a kind, in addition
// to those that were not running when the memory was measured.
func (p *Pool[K, S]) fitsMemory(kind K, load Load) bool {
	more := p.memoryOf(kind)
	for _, s := range p.starting {
		more += p.memoryOf(s.kind)
	}
	for _, e := range p.ready {
		if !load.At.IsZero() && e.readySince.After(load.At) {
			more += p.memoryOf(e.kind)
		}
	}
	return percent(load.MemoryUsed+more, load.MemoryLimit) <= load.ceiling()-startHeadroom
}

// exceedsMemory reports whether warm browsers use memory that launches need.
func (p *Pool[K, S]) exceedsMemory(load Load) bool {
	return percent(load.MemoryUsed, load.MemoryLimit) > load.ceiling()-keepHeadroom
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
