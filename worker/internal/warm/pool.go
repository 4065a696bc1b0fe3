// Package warm keeps ready what takes long to start, so that who needs it does
// not wait. What that is does not matter here: a spare of some kind K, which is
// used once.
//
// A claim takes what is ready and never waits; spares are made one at a time,
// when the machine has nothing better to do, of the kinds that were asked for
// lately.
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
	Done() <-chan struct{}          // closed when it has died
	Stale() bool                    // a new one would differ; asked at every claim, so it must be quick
	Memory() int64                  // bytes that it takes; 0 while nobody knows; may take some milliseconds
	Stop(ctx context.Context) error // ends it; of one that has died too
}

// Miss is why a claim found nothing. It is empty when the claim found a spare.
type Miss string

// Why a claim may find nothing.
const (
	Disabled Miss = "disabled" // there is no pool
	Draining Miss = "draining" // or no more
	Empty    Miss = "empty"    // nothing of the kind is ready
	Starting Miss = "starting" // but one is on its way
)

// Options of a Pool. MaxAge and Idle have defaults.
type Options[K comparable, S Browser] struct {
	Size   int   // the most spares at a time; 0 is no pool
	Memory int64 // the most bytes that they take together; 0: what the machine can spare

	Start  func(ctx context.Context, kind K) (S, error)
	First  func(ctx context.Context) (K, bool) // what is kept ready before anything was asked for; false: nothing
	Load   func() Load
	Clock  clock.Clock
	Logger *slog.Logger

	MaxAge time.Duration // ofKind a spare; by default 30 minutes
	Idle   time.Duration // without a claim, after which nothing is kept ready; by default an hour
}

// Bounds of what is done with one spare.
const (
	startTimeout = 30 * time.Second
	stopTimeout  = 20 * time.Second
)

// Pool keeps spares ready while Run runs.
type Pool[K comparable, S Browser] struct {
	Options[K, S]

	wake chan struct{}  // something has changed
	work sync.WaitGroup // watchers, a start and stops under way

	mu          sync.Mutex
	ready       []*entry[K, S] // the oldest first
	starting    *K             // nil: none
	cancelStart func()         // ends the start under way
	lastStartAt time.Time      // the end of the last start
	demand      demand[K]
	backoffs    map[K]backoff
	draining    bool
	closed      bool
	counts      Counts
}

// entry is a spare that is ready.
type entry[K comparable, S Browser] struct {
	kind       K
	browser    S
	readySince time.Time
	memory     int64 // when it was last measured
	measuredAt time.Time
	removed    chan struct{} // closed when it is no longer in the pool
}

// New returns a pool that keeps nothing ready until Run.
func New[K comparable, S Browser](options Options[K, S]) *Pool[K, S] {
	if options.MaxAge <= 0 {
		options.MaxAge = 30 * time.Minute
	}
	if options.Idle <= 0 {
		options.Idle = time.Hour
	}
	return &Pool[K, S]{
		Options: options, wake: make(chan struct{}, 1), cancelStart: func() {},
		demand: demand[K]{weights: map[K]weight{}}, backoffs: map[K]backoff{}, counts: Counts{Missed: map[Miss]int64{}},
	}
}

// Claim takes a spare of a kind out of the pool, which forgets it: nobody else
// gets it, and its end is the caller's. It does not wait.
func (p *Pool[K, S]) Claim(kind K) (S, Miss) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.signal()
	spare, miss := p.claim(kind)
	if miss == "" {
		p.counts.Claimed++
	} else {
		p.counts.Missed[miss]++
	}
	return spare, miss
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
		dead, stale := p.health(e, now)
		if !dead && !stale {
			p.remove(e)
			delete(p.backoffs, kind)
			return e.browser, ""
		}
		p.discard(e, dead, now)
	}
	if p.starting != nil && *p.starting == kind {
		return none, Starting
	}
	return none, Empty
}

// Drain lets go of every spare and makes no new ones until Resume.
func (p *Pool[K, S]) Drain() { p.setDraining(true) }

// Resume makes spares again after Drain.
func (p *Pool[K, S]) Resume() { p.setDraining(false) }

func (p *Pool[K, S]) setDraining(draining bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draining = draining || p.closed
	if p.draining {
		p.cancelStart()
		p.stopAll()
	}
	p.signal()
}

// Close lets go of every spare, for good, and waits until the last has ended,
// as long as ctx allows.
func (p *Pool[K, S]) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Drain()
	over := make(chan struct{})
	go func() { p.work.Wait(); close(over) }()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return errors.New("some of what was kept ready could not be ended in time")
	}
}

// signal tells Run to look again.
func (p *Pool[K, S]) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
