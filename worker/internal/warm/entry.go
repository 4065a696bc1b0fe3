package warm

import (
	"context"
	"errors"
	"slices"
	"time"
)

// ofKind lists the spares of a kind, the oldest first. The caller holds the lock, as
// for all that follows here unless it says otherwise.
func (p *Pool[K, S]) ofKind(kind K) []*entry[K, S] {
	var found []*entry[K, S]
	for _, e := range p.ready {
		if e.kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// health reports whether a spare must not be handed out.
func (p *Pool[K, S]) health(e *entry[K, S], now time.Time) (dead, stale bool) {
	select {
	case <-e.browser.Done():
		return true, false
	default:
		return false, now.Sub(e.readySince) >= p.MaxAge || e.browser.Stale()
	}
}

// start makes a spare in the background.
func (p *Pool[K, S]) start(ctx context.Context, kind K) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	p.starting, p.cancelStart = &kind, cancel
	p.work.Go(func() {
		defer cancel()
		spare, err := p.Start(ctx, kind)
		p.mu.Lock()
		defer p.mu.Unlock()
		defer p.signal()
		now := p.Clock.Now()
		p.starting, p.lastStartAt = nil, now
		if err != nil {
			if !errors.Is(ctx.Err(), context.Canceled) {
				p.counts.Failed++
				p.recordDeath(kind, now)
				p.Logger.Warn("nothing could be made ready", "kind", kind, "again", p.backoffs[kind].until.Sub(now), "error", err)
			}
			return
		}
		p.counts.Started++
		p.add(&entry[K, S]{kind: kind, browser: spare, readySince: now, measuredAt: now.Add(settleDelay - measureInterval), removed: make(chan struct{})})
	})
}

// add keeps a new spare and watches it; a pool that drains lets go of it at
// once.
func (p *Pool[K, S]) add(e *entry[K, S]) {
	p.ready = append(p.ready, e)
	if p.draining {
		p.removeAndStop(e)
		return
	}
	p.work.Go(func() {
		select {
		case <-e.removed:
		case <-e.browser.Done():
			p.mu.Lock()
			defer p.mu.Unlock()
			if slices.Contains(p.ready, e) {
				p.discard(e, true, p.Clock.Now())
				p.signal()
			}
		}
	})
}

// remove takes a spare out of the pool. It is the caller's from now on.
func (p *Pool[K, S]) remove(e *entry[K, S]) {
	p.ready = slices.DeleteFunc(p.ready, func(other *entry[K, S]) bool { return other == e })
	close(e.removed)
}

// removeAndStop takes a spare out of the pool and ends it.
func (p *Pool[K, S]) removeAndStop(e *entry[K, S]) {
	p.remove(e)
	p.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := e.browser.Stop(ctx); err != nil {
			p.Logger.Error("what was kept ready resists its end", "kind", e.kind, "error", err)
		}
	})
}

// discard takes out a spare that has died, or is stale.
func (p *Pool[K, S]) discard(e *entry[K, S], dead bool, now time.Time) {
	if dead {
		p.counts.Died++
		p.recordDeath(e.kind, now)
		p.Logger.Warn("what was kept ready has died", "kind", e.kind, "after", now.Sub(e.readySince).Round(time.Second))
	} else {
		p.counts.Stale++
	}
	p.removeAndStop(e)
}

func (p *Pool[K, S]) recordDeath(kind K, now time.Time) {
	p.backoffs[kind] = p.backoffs[kind].next(now)
}

// stopAll lets go of everything.
func (p *Pool[K, S]) stopAll() {
	for _, e := range slices.Clone(p.ready) {
		p.removeAndStop(e)
	}
}

// measureMemory measures the spares whose last measure is old. The caller does not hold
// the lock: it takes a while.
func (p *Pool[K, S]) measureMemory() {
	now := p.Clock.Now()
	p.mu.Lock()
	ready := slices.Clone(p.ready)
	p.mu.Unlock()
	for _, e := range ready {
		if now.Sub(e.measuredAt) < measureInterval { // only Run looks at this
			continue
		}
		memory := e.browser.Memory()
		p.mu.Lock()
		e.memory, e.measuredAt = memory, now
		p.mu.Unlock()
	}
}

// totalMemory is what the spares take together, in bytes.
func (p *Pool[K, S]) totalMemory() (sum int64) {
	for _, e := range p.ready {
		sum += p.memoryOf(e)
	}
	return sum
}

func (p *Pool[K, S]) memoryOf(e *entry[K, S]) int64 {
	if e.memory > 0 {
		return e.memory
	}
	return assumedMemory
}

// averageMemory is what one spare takes, by those that were weighed.
func (p *Pool[K, S]) averageMemory() int64 {
	if len(p.ready) == 0 {
		return assumedMemory
	}
	return p.totalMemory() / int64(len(p.ready))
}
