package license

import (
	"sync"
	"time"

	"github.com/browser-svc/svc/shared/clock"
)

// gracePeriod is a time in which no session is given up, although its lease may be
// over: the workers could not report, and need a moment to do so. It begins with
// the process, and again whenever the database does not answer.
type gracePeriod struct {
	clock    clock.Clock
	duration time.Duration

	mu      sync.Mutex
	started time.Time
}

func (g *gracePeriod) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.started = g.clock.Now()
}

func (g *gracePeriod) active() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	age := g.clock.Now().Sub(g.started)
	return age >= 0 && age < g.duration
}
