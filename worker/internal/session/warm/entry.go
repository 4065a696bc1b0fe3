package warm

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// ofKind returns the browsers of a kind, oldest first. The caller holds the lock, as
// for all functions below unless they say otherwise.
func (p *Pool[K, S]) ofKind(kind K) []*entry[K, S] {
	var found []*entry[K, S]
	for _, e := range p.ready {
		if e.kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// health reports whether a browser is dead or stale. Such a browser must not be
// claimed.
func (p *Pool[K, S]) health(e *entry[K, S], now time.Time) (dead, stale bool) {
	select {
	case <-e.browser.Done():
		return true, false
	default:
		return false, now.Sub(e.readySince) >= p.MaxAge || e.browser.Stale()
	}
}

// add adds and watches a new browser. While the pool drains, it stops the browser
// immediately.
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

// remove removes a browser from the pool. The caller owns it from now on.
func (p *Pool[K, S]) remove(e *entry[K, S]) {
	p.ready = slices.DeleteFunc(p.ready, func(other *entry[K, S]) bool { return other == e })
	close(e.removed)
}

// removeAndStop removes a browser from the pool and stops it.
func (p *Pool[K, S]) removeAndStop(e *entry[K, S]) {
	p.remove(e)
	p.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := e.browser.Stop(ctx); err != nil {
			p.Logger.Error("failed to stop warm browser", "kind", e.kind, "error", err)
		}
	})
}

// discard removes a dead or stale browser.
func (p *Pool[K, S]) discard(e *entry[K, S], dead bool, now time.Time) {
	if dead {
		p.counts.Died++
		p.recordDeath(e.kind, now)
		p.Logger.Warn("warm browser died", "kind", e.kind, "after", now.Sub(e.readySince).Round(time.Second))
	} else {
		p.counts.Stale++
	}
	p.removeAndStop(e)
}

func (p *Pool[K, S]) recordDeath(kind K, now time.Time) {
	p.backoffs[kind] = p.backoffs[kind].next(now)
}

// stopAll removes and stops all browsers.
func (p *Pool[K, S]) stopAll() {
	for _, e := range slices.Clone(p.ready) {
		p.removeAndStop(e)
	}
}

// memory is the measured memory of a browser of a kind.
type memory struct {
	bytes      int64
	measuredAt time.Time
}

// measureMemory measures one browser of each kind without a recent measurement: idle
// browsers of a kind are alike, and measuring costs as much processor time as a launch. The
// caller must not hold the lock, because measuring takes time.
func (p *Pool[K, S]) measureMemory() {
	for _, e := range p.unmeasured() {
		bytes := e.browser.Memory()
		p.mu.Lock()
		p.memories[e.kind] = memory{bytes, p.Clock.Now()}
		p.mu.Unlock()
	}
}

// unmeasured returns a browser of each kind to measure. The caller must not hold the lock.
func (p *Pool[K, S]) unmeasured() map[K]*entry[K, S] {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, found := p.Clock.Now(), map[K]*entry[K, S]{}
	for _, e := range p.ready {
		if now.Sub(e.readySince) >= settleDelay && now.Sub(p.memories[e.kind].measuredAt) >= measureInterval {
			found[e.kind] = e
		}
	}
	return found
}

// totalMemory returns the memory of all browsers in bytes.
func (p *Pool[K, S]) totalMemory() (sum int64) {
	for _, e := range p.ready {
		sum += p.memoryOf(e.kind)
	}
	return sum
}

func (p *Pool[K, S]) memoryOf(kind K) int64 {
	return cmp.Or(p.memories[kind].bytes, assumedMemory)
}

// averageMemory returns the average memory of a browser in bytes.
func (p *Pool[K, S]) averageMemory() int64 {
	if len(p.ready) == 0 {
		return assumedMemory
	}
	return p.totalMemory() / int64(len(p.ready))
}
