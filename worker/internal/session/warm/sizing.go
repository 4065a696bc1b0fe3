package warm

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// acceptedMiss is the probability that a launch finds no browser, with which the stock of
// a kind is calculated.
const acceptedMiss = 0.02

// maxStock bounds the stock of a kind.
const maxStock = 100

// stockFor returns how many browsers of a kind must be ready or starting, so that a
// launch finds a ready one with probability 1-acceptedMiss. The mean is the average number
// of launches that arrive while a browser is replaced. It assumes that launches arrive
// independently and that each claimed browser is replaced: then a launch finds none if at
// least as many launches as the stock have arrived during the last replacement.
func stockFor(mean float64) int {
	chance := math.Exp(-mean) // of exactly n arrivals; they have a Poisson distribution
	fewer := 0.0              // chance of at most n arrivals
	for n := range maxStock {
		fewer += chance
		if 1-fewer <= acceptedMiss {
			return n + 1
		}
		chance *= mean / float64(n+1)
	}
	return maxStock
}

// Reason is why a pool has its target.
type Reason string

// Reasons for a target.
const (
	Minimum  Reason = "minimum"  // demand requires no more than the minimum
	Demand   Reason = "demand"   // arrivals and start times require more than the minimum
	Maximum  Reason = "maximum"  // demand requires more than the maximum
	Capacity Reason = "capacity" // the machine admits no more launches
	Memory   Reason = "memory"   // the memory does not suffice for the target
	Idle     Reason = "idle"     // no launch for a long time
	Drained  Reason = "draining" // the pool is draining
	Off      Reason = "disabled" // the pool is disabled
)

// plan is the number of browsers that a pool wants, and of which kinds.
type plan[K comparable] struct {
	target  int
	reason  Reason
	stock   map[K]int     // of kinds that launches request regularly
	weights map[K]float64 // weights of all kinds that launches requested recently
}

// plan decides how many browsers the pool wants. The caller holds the lock.
func (p *Pool[K, S]) plan(load Load, weights map[K]float64, now time.Time) plan[K] {
	next := plan[K]{stock: map[K]int{}, weights: weights, reason: Minimum, target: p.Size}
	forgotten := func(kind K) bool { _, found := weights[kind]; return !found }
	maps.DeleteFunc(p.durations, func(kind K, _ durations) bool { return forgotten(kind) })
	maps.DeleteFunc(p.lacks, func(kind K, _ []time.Time) bool { return forgotten(kind) })
	maps.DeleteFunc(p.memories, func(kind K, _ memory) bool { return forgotten(kind) })
	sum := 0
	for kind := range weights {
		stock := p.demand.stock(kind, p.durations[kind], now)
		if stock > 0 {
			next.stock[kind] = stock
		}
		sum += stock
	}
	if sum > p.Size {
		next.target, next.reason = sum, Demand
	}
	if next.target > p.Max {
		next.target, next.reason = p.Max, Maximum
	}
	if load.Capacity >= 0 && load.Capacity < next.target {
		next.target, next.reason = load.Capacity, Capacity
	}
	if now.Sub(p.demand.last) >= p.Idle {
		next.target, next.reason = 0, Idle
	}
	return next
}

// mostUrgent returns the kind whose stock is least complete.
func (p *Pool[K, S]) mostUrgent(next plan[K], now time.Time) (best K, ok bool) {
	filled := func(kind K) float64 { return float64(p.available(kind)) / float64(next.stock[kind]) }
	var kinds []K
	for kind, stock := range next.stock {
		if p.available(kind) < stock && !now.Before(p.backoffs[kind].until) {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		return best, false
	}
	return slices.MinFunc(kinds, func(a, b K) int {
		return cmp.Or(cmp.Compare(filled(a), filled(b)), cmp.Compare(next.weights[b], next.weights[a]))
	}), true
}

// available returns how many browsers of a kind are ready, or are starting for no
// particular launch.
func (p *Pool[K, S]) available(kind K) int {
	n := len(p.ofKind(kind))
	for _, s := range p.starting {
		if s.kind == kind && s.awaited == nil {
			n++
		}
	}
	return n
}

// held returns how many browsers are ready, or are starting for no particular launch.
func (p *Pool[K, S]) held() int {
	n := len(p.ready)
	for _, s := range p.starting {
		if s.awaited == nil {
			n++
		}
	}
	return n
}
