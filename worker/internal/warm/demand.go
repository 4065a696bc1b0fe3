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

// replaceFactor is how much higher the demand for a kind must be than for the kind
// it replaces. Without it, alternating kinds would evict each other.
const replaceFactor = 1.5

// demand is the recent demand for kinds. Older claims count less.
type demand[K comparable] struct {
	weights   map[K]weight
	last      time.Time // time of the last claim, or the start of the pool
	everAsked bool      // there was at least one claim
}

type weight struct {
	value float64
	at    time.Time
}

func (w weight) now(now time.Time) float64 {
	return w.value * math.Exp2(-now.Sub(w.at).Seconds()/halfLife.Seconds())
}

func (d *demand[K]) record(kind K, now time.Time) {
	d.weights[kind] = weight{d.weights[kind].now(now) + 1, now}
	d.last, d.everAsked = now, true
}

// current returns the weight of each kind that is not forgotten.
func (d *demand[K]) current(now time.Time) map[K]float64 {
	found := map[K]float64{}
	for kind, w := range d.weights {
		if value := w.now(now); value >= minWeight {
			found[kind] = value
		} else {
			delete(d.weights, kind)
		}
	}
	return found
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
