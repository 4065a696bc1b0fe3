// Package warm keeps browsers ready, so that launches need not wait for a browser to
// start. The package does not depend on real browsers: a Browser has a kind K and is
// used once.
//
// A claim returns a ready browser and never waits. The pool keeps a minimum of browsers,
// of the kinds that were claimed recently. It starts them one at a time, while the machine
// is idle. For kinds that launches request regularly, it keeps as many browsers as are
// requested while one is replaced, and starts them also while launches are in progress.
package warm

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/browser-svc/svc/shared/clock"
)

// Browser is kept ready for one claim.
type Browser interface {
	Done() <-chan struct{}          // closed when the browser has died
	Stale() bool                    // a new browser would differ; called for every claim, so it must be fast
	Memory() int64                  // in bytes; 0 if unknown; may take some milliseconds
	Stop(ctx context.Context) error // also called for a dead browser
}

// Miss is why a claim returned no browser. It is empty for a successful claim.
type Miss string

// Reasons for a miss.
const (
	Disabled Miss = "disabled" // the pool has size 0
	Draining Miss = "draining" // the pool is draining
	Empty    Miss = "empty"    // no browser of the kind is ready
	Starting Miss = "starting" // a browser of the kind will soon have started; see Await
)

// Options configures a Pool. MaxAge and Idle have defaults.
type Options[K comparable, S Browser] struct {
	Size int // minimum number of browsers, kept without demand; 0 disables the pool
	Max  int // maximum number of browsers; at least Size

	Start  func(ctx context.Context, kind K) (S, error)
	First  func(ctx context.Context) (K, bool) // kind to keep ready before the first claim; false: none
	Load   func() Load
	Clock  clock.Clock
	Logger *slog.Logger

	MaxAge time.Duration // of a browser; default 30 minutes
	Idle   time.Duration // time without a claim after which the pool is emptied; default one hour
}

// Timeouts for one browser.
const (
	startTimeout = 30 * time.Second
	stopTimeout  = 20 * time.Second
)

// Pool keeps browsers ready while Run runs.
type Pool[K comparable, S Browser] struct {
	Options[K, S]

	wake chan struct{}  // wakes Run
	work sync.WaitGroup // watchers, starts and stops in progress

	mu           sync.Mutex
	ready        []*entry[K, S]        // oldest first
	starting     []*browserStart[K, S] // oldest first
	durations    map[K]durations
	lacks        map[K][]time.Time // claims whose browsers are not yet replaced, oldest first
	memories     map[K]memory
	lastStartEnd time.Time // when the last start ended
	lacksSince   time.Time // since when a start waits for a launch in progress
	lastBurst    time.Time
	last         plan[K] // of the last tick
	demand       demand[K]
	backoffs     map[K]backoff
	draining     bool
	closed       bool
	counts       Counts
}

// entry is a browser that is ready.
type entry[K comparable, S Browser] struct {
	kind       K
	browser    S
	readySince time.Time
	removed    chan struct{} // closed when it is no longer in the pool
}

// New returns a pool that starts no browsers until Run.
func New[K comparable, S Browser](options Options[K, S]) *Pool[K, S] {
	if options.MaxAge <= 0 {
		options.MaxAge = 30 * time.Minute
	}
	if options.Idle <= 0 {
		options.Idle = time.Hour
	}
	options.Max = max(options.Max, options.Size)
	return &Pool[K, S]{
		Options: options, wake: make(chan struct{}, 1), durations: map[K]durations{}, lacks: map[K][]time.Time{}, memories: map[K]memory{},
		last: plan[K]{target: options.Size, reason: Minimum}, demand: newDemand[K](), backoffs: map[K]backoff{}, counts: Counts{Missed: map[Miss]int64{}},
	}
}

// Claim removes a browser of a kind from the pool and returns it. The caller owns it and
// must stop it. Claim does not wait.
func (p *Pool[K, S]) Claim(kind K) (S, Miss) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.signal()
	browser, miss := p.claim(kind)
	if miss == "" {
		p.counts.Claimed++
	} else {
		p.counts.Missed[miss]++
	}
	return browser, miss
}

func (p *Pool[K, S]) claim(kind K) (none S, _ Miss) {
	if p.Size <= 0 {
		return none, Disabled
	}
	now := p.Clock.Now()
	p.demand.record(kind, now)
	if p.draining {
		return none, Draining
	}
	for _, e := range p.ofKind(kind) {
		if dead, stale := p.health(e, now); dead || stale {
			p.discard(e, dead, now)
			continue
		}
		p.remove(e)
		p.lack(kind, now)
		delete(p.backoffs, kind)
		return e.browser, ""
	}
	if _, found := p.freeStart(kind); found {
		return none, Starting
	}
	return none, Empty
}

// Drain stops every browser and starts no new ones until Resume.
func (p *Pool[K, S]) Drain() { p.setDraining(true) }

// Resume starts browsers again after Drain.
func (p *Pool[K, S]) Resume() { p.setDraining(false) }

func (p *Pool[K, S]) setDraining(draining bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draining = draining || p.closed
	if p.draining {
		p.cancelStarts()
		p.stopAll()
	}
	p.signal()
}

// Close stops every browser permanently and waits for them until ctx ends.
func (p *Pool[K, S]) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Drain()
	done := make(chan struct{})
	go func() { p.work.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.New("some warm browsers did not stop in time")
	}
}

// signal wakes Run.
func (p *Pool[K, S]) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
