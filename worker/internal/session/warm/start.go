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
	lacked  time.Time // since when the pool has lacked the browser
	began   time.Time
	cancel  func()
	awaited chan S // nil: for no particular launch; closed without a browser if the start fails
}

// start starts a browser in the background.
func (p *Pool[K, S]) start(ctx context.Context, kind K) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	now := p.Clock.Now()
	s := &browserStart[K, S]{kind: kind, lacked: p.replaced(kind, now), began: now, cancel: cancel}
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
		p.record(kind, func(d *durations) {
			d.wait, d.start = d.wait.with(s.began.Sub(s.lacked)), d.start.with(p.lastStartEnd.Sub(s.began))
		})
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
	delete(p.lacks, s.kind)
	p.Logger.Warn("failed to start warm browser", "kind", s.kind, "retryAfter", p.backoffs[s.kind].until.Sub(now), "error", err)
}

// release ends the wait of a launch, which then gets no browser.
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

// freeStart returns the oldest start of a kind that is for no particular launch.
func (p *Pool[K, S]) freeStart(kind K) (*browserStart[K, S], bool) {
	i := slices.IndexFunc(p.starting, func(s *browserStart[K, S]) bool { return s.kind == kind && s.awaited == nil })
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
