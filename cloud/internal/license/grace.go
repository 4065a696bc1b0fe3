package license

import (
	"sync"
	"time"

	"github.com/browser-svc/svc/shared/clock"
)

// grace is a time in which no session is given up, although its lease may be
// over: the workers could not report, and need a moment to do so. It begins with
// the process, and again whenever the database does not answer.
type grace struct {
	clock clock.Clock
	lasts time.Duration

	mu    sync.Mutex
	since time.Time
}

func (g *grace) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.since = g.clock.Now()
}

func (g *grace) on() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	age := g.clock.Now().Sub(g.since)
	return age >= 0 && age < g.lasts
}
