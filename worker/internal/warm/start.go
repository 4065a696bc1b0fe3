package warm

import (
	"context"
	"errors"
	"slices"
	"time"
)

// browserStart is a start in progress.
type browserStart[K comparable, S Browser] struct {
	kind    K
	began   time.Time
	cancel  func()
	awaited chan S // nil: for no particular launch; closed without a browser if the start fails
}

// start starts a browser in the background.
func (p *Pool[K, S]) start(ctx context.Context, kind K) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	s := &browserStart[K, S]{kind: kind, began: p.Clock.Now(), cancel: cancel}
	p.starting = append(p.starting, s)
	p.work.Go(func() {
		defer cancel()
		browser, err := p.Start(ctx, kind)
		p.mu.Lock()
		defer p.mu.Unlock()
		defer p.signal()
		p.starting = slices.DeleteFunc(p.starting, func(other *browserStart[K, S]) bool { return other == s })
		p.lastStartEnd = p.Clock.Now()
		if err != nil {
			p.startFailed(ctx, s, err)
			return
		}
		p.counts.Started++
		p.recordStartTime(kind, p.lastStartEnd.Sub(s.began))
		if s.awaited != nil && !p.draining {
			s.awaited <- browser
			return
		}
		s.release()
		p.add(p.newEntry(kind, browser))
	})
}

func (p *Pool[K, S]) startFailed(ctx context.Context, s *browserStart[K, S], err error) {
	s.release()
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	now := p.Clock.Now()
	p.counts.Failed++
	p.recordDeath(s.kind, now)
	p.Logger.Warn("failed to start warm browser", "kind", s.kind, "retryAfter", p.backoffs[s.kind].until.Sub(now), "error", err)
}

// release tells a waiting launch that it gets no browser.
func (s *browserStart[K, S]) release() {
	if s.awaited != nil {
		close(s.awaited)
	}
}

// Await waits for a browser that is starting, after Claim has returned Starting. The
// caller owns it and must stop it. Without such a browser, or if it fails to start or ctx
// ends first, ok is false.
func (p *Pool[K, S]) Await(ctx context.Context, kind K) (browser S, ok bool) {
	p.mu.Lock()
	s, found := p.freeStart(kind)
	if found {
		s.awaited = make(chan S, 1)
		p.signal() // the pool lacks it now
	}
	p.mu.Unlock()
	if !found {
		return browser, false
	}
	select {
	case browser, ok = <-s.awaited:
		return browser, ok
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case browser, ok = <-s.awaited: // meanwhile
		return browser, ok
	default:
		s.awaited = nil
		return browser, false
	}
}

// maxAwait is how long a launch waits for a browser that is starting, as expected from
// the start times. A start for the pool takes longer than that for a launch, because it
// includes a change of the time zone: up to three seconds with a complete browser.
const maxAwait = 250 * time.Millisecond

// freeStart returns the oldest start of a kind that is for no particular launch and is
// expected to end soon.
func (p *Pool[K, S]) freeStart(kind K) (*browserStart[K, S], bool) {
	average := p.startTimes[kind] // 0 before the first start
	now := p.Clock.Now()
	i := slices.IndexFunc(p.starting, func(s *browserStart[K, S]) bool {
		return s.kind == kind && s.awaited == nil && average-now.Sub(s.began) <= maxAwait
	})
	if i < 0 {
		return nil, false
	}
	return p.starting[i], true
}

// cancelStarts cancels the starts in progress.
func (p *Pool[K, S]) cancelStarts() {
	for _, s := range p.starting {
		s.cancel()
	}
}

func (p *Pool[K, S]) newEntry(kind K, browser S) *entry[K, S] {
	return &entry[K, S]{kind: kind, browser: browser, readySince: p.Clock.Now(), removed: make(chan struct{})}
}
