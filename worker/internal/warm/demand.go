package warm

import (
	"math"
	"time"
)

// halfLife is the time after which a claim counts half.
const halfLife = 10 * time.Minute

// minWeight is the weight below which a kind is no longer thought of: of one
// claim, three quarters of an hour later.
const minWeight = 0.05

// replaceFactor is how much more a kind must be asked for than another to take its
// place; else kinds that are asked for in turn would drive each other out.
const replaceFactor = 1.5

// demand is what was asked for lately, counted so that the past fades.
type demand[K comparable] struct {
	weights   map[K]weight
	last      time.Time // when anything was asked for, or the pool began
	everAsked bool      // anything was asked for, ever
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

// current returns the weight of each kind that is thought of.
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

// backoffs of spares of one kind, one after the other.
type backoff struct {
	deaths int
	until  time.Time // no start before
}

// Bounds of the time that a kind is left alone after its spares have died.
const (
	minBackOff = time.Second
	maxBackOff = 5 * time.Minute
)

func (d backoff) next(now time.Time) backoff {
	d.deaths++
	d.until = now.Add(min(minBackOff<<min(d.deaths-1, 10), maxBackOff))
	return d
}
