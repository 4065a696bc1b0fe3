package warm

import (
	"math"
	"time"
)

// halfLife is the time after which a claim counts half.
const halfLife = 10 * time.Minute

// minWeight is the weight below which a kind is forgotten: one claim counts for 43
// minutes.
const minWeight = 0.05

// regularWeight is the weight from which a kind has a stock of its own: two claims within a
// minute, or regular ones at most six minutes apart.
const regularWeight = 1.9

// replaceFactor is how much higher the demand for a kind must be than for the kind
// it replaces. Without it, alternating kinds would evict each other.
const replaceFactor = 1.5

// Constants of arrival rates.
const (
	rateWindow = 30 * time.Second // time constant of the average
	stockHold  = 2 * time.Minute  // how long a stock is kept after the demand for it
)

// demand is the recent demand for kinds. Older claims count less.
type demand[K comparable] struct {
	weights map[K]decayingWeight
	rates   map[K]decayingWeight // arrivals in the last rateWindow
	stocks  map[K]stock
	last    time.Time // time of the last claim, or the start of the pool
	claimed bool      // there was at least one claim
}

func newDemand[K comparable]() demand[K] {
	return demand[K]{weights: map[K]decayingWeight{}, rates: map[K]decayingWeight{}, stocks: map[K]stock{}}
}

type decayingWeight struct {
	value     float64
	updatedAt time.Time
}

func (w decayingWeight) now(now time.Time) float64 {
	return w.value * math.Exp2(-now.Sub(w.updatedAt).Seconds()/halfLife.Seconds())
}

func (w decayingWeight) inWindow(now time.Time) float64 {
	return w.value * math.Exp(-now.Sub(w.updatedAt).Seconds()/rateWindow.Seconds())
}

// stock is the stock of a kind, and when it was last required.
type stock struct {
	size       int
	requiredAt time.Time
}

func (d *demand[K]) record(kind K, now time.Time) {
	d.weights[kind] = decayingWeight{d.weights[kind].now(now) + 1, now}
	d.rates[kind] = decayingWeight{d.rates[kind].inWindow(now) + 1, now}
	d.last, d.claimed = now, true
}

// current returns the weight of each kind that is not forgotten.
func (d *demand[K]) current(now time.Time) map[K]float64 {
	found := map[K]float64{}
	for kind, w := range d.weights {
		if value := w.now(now); value >= minWeight {
			found[kind] = value
		} else {
			delete(d.weights, kind)
			delete(d.rates, kind)
			delete(d.stocks, kind)
		}
	}
	return found
}

// perSecond returns the arrival rate of a kind.
func (d *demand[K]) perSecond(kind K, now time.Time) float64 {
	return d.rates[kind].inWindow(now) / rateWindow.Seconds()
}

// stock returns the stock of a kind: the largest of the last stockHold, so that a random
// pause in the arrivals stops no browsers.
func (d *demand[K]) stock(kind K, times durations, now time.Time) int {
	required := 0
	if d.weights[kind].now(now) >= regularWeight {
		required = stockFor(d.perSecond(kind, now) * times.replacement().Seconds())
	}
	held := d.stocks[kind]
	if required >= held.size || now.Sub(held.requiredAt) >= stockHold {
		held = stock{required, now}
		d.stocks[kind] = held
	}
	return held.size
}

// backoff counts consecutive deaths of browsers of one kind.
type backoff struct {
	deaths int
	until  time.Time // no start before this time
}

// Limits of the backoff.
const (
	minBackOff = time.Second
	maxBackOff = 5 * time.Minute
)

func (d backoff) next(now time.Time) backoff {
	d.deaths++
	d.until = now.Add(min(minBackOff<<min(d.deaths-1, 10), maxBackOff))
	return d
}
