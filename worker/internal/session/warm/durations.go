package warm

import (
	"cmp"
	"time"
)

// Averages of durations.
const (
	assumedStartTime = 500 * time.Millisecond // before the first start of a kind
	lastWeight       = 0.25                   // of the last duration in the average
)

// average is an average of the last durations, in which older ones count less.
type average struct {
	value    time.Duration
	measured bool
}

func (a average) with(took time.Duration) average {
	if !a.measured {
		return average{took, true}
	}
	return average{a.value + time.Duration(lastWeight*float64(took-a.value)), true}
}

// durations are the averages of a kind.
type durations struct {
	wait  average // from a claim to the start of another browser
	start average // from there until that browser is ready
}

// replacement returns the time from a claim until another browser is ready.
func (d durations) replacement() time.Duration {
	return d.wait.value + cmp.Or(d.start.value, assumedStartTime)
}

// record adds durations to the averages of a kind. The caller holds the lock, as for all
// functions below.
func (p *Pool[K, S]) record(kind K, add func(*durations)) {
	d := p.durations[kind]
	add(&d)
	p.durations[kind] = d
}

// lack notes that a browser of a kind was claimed and not yet replaced.
func (p *Pool[K, S]) lack(kind K, now time.Time) {
	p.lacks[kind] = append(p.lacks[kind], now)
}

// replaced returns since when the pool has lacked the browser that it starts now.
func (p *Pool[K, S]) replaced(kind K, now time.Time) time.Time {
	lacks := p.lacks[kind]
	if len(lacks) == 0 {
		return now
	}
	p.lacks[kind] = lacks[1:]
	return lacks[0]
}

// forgetLacks forgets the claimed browsers of kinds that need no replacement.
func (p *Pool[K, S]) forgetLacks() {
	for kind := range p.lacks {
		if p.available(kind) >= p.last.stock[kind] {
			delete(p.lacks, kind)
		}
	}
}
