package selftest

import (
	"math/rand/v2"
	"slices"
	"sync"
)

// deck deals the ways: all of them in an order by chance, then again.
type deck struct {
	seed uint64
	all  []way
	only int // rounds; 0 for any number

	mu    sync.Mutex
	dice  *rand.Rand
	rest  []way
	round int
	dealt uint64
}

func newDeck(o Options) *deck {
	all := slices.DeleteFunc(ways(), func(w way) bool { return len(o.Ways) > 0 && !slices.Contains(o.Ways, w.name) })
	return &deck{seed: o.Seed, all: all, only: o.Rounds, dice: rand.New(rand.NewPCG(o.Seed, 1))}
}

// next is the next way, with dice of its own; false when all rounds are over.
func (d *deck) next(canShow bool) (way, *rand.Rand, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.rest) == 0 {
		if d.only > 0 && d.round == d.only {
			return way{}, nil, false
		}
		d.round++
		d.rest = slices.DeleteFunc(slices.Clone(d.all), func(w way) bool { return w.screen == headfulOnly && !canShow })
		d.dice.Shuffle(len(d.rest), func(i, j int) { d.rest[i], d.rest[j] = d.rest[j], d.rest[i] })
	}
	if len(d.rest) == 0 {
		return way{}, nil, false
	}
	w := d.rest[0]
	d.rest = d.rest[1:]
	d.dealt++
	return w, rand.New(rand.NewPCG(d.seed, 1+d.dealt)), true
}

// missed are the ways that were never gone: for want of time, or of windows.
func (d *deck) missed(canShow bool) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found []string
	for _, w := range d.all {
		noWindow := w.screen == headfulOnly && !canShow
		isWaiting := slices.ContainsFunc(d.rest, func(o way) bool { return o.name == w.name })
		if noWindow || d.round == 0 || d.round == 1 && isWaiting {
			found = append(found, w.name)
		}
	}
	return found
}
