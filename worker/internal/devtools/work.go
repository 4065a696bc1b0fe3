package devtools

import (
	"context"
	"fmt"
	"sync"

	"github.com/browser-svc/svc/shared/fault"
)

var errClosing = fault.New(fault.Unavailable, "The worker is shutting down.")

// work is everything under way: connections that were taken over, and calls to
// browsers. Each launch has a bounded share. Closing it ends all of it.
type work struct {
	ctx    context.Context // ends with close
	cancel context.CancelFunc
	most   int // of one launch

	mu      sync.Mutex // orders begin against close
	running sync.WaitGroup
	open    map[string]int // by launch id
}

func newWork(most int) *work {
	w := &work{most: most, open: map[string]int{}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// begin admits one more piece; a fault once closed, and when the launch has
// its share. end must follow.
func (w *work) begin(launchID string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return errClosing
	}
	if w.open[launchID] >= w.most {
		return fault.New(fault.Unavailable, fmt.Sprintf("This browser has %d connections open, as many as it may.", w.most))
	}
	w.open[launchID]++
	w.running.Add(1)
	return nil
}

func (w *work) end(launchID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open[launchID]--; w.open[launchID] == 0 {
		delete(w.open, launchID)
	}
	w.running.Done()
}

// keep runs something that no launch's share counts. To be called between begin
// and end.
func (w *work) keep(run func(ctx context.Context)) {
	w.running.Go(func() { run(w.ctx) })
}

// close returns when everything has ended.
func (w *work) close() {
	w.mu.Lock()
	w.cancel()
	w.mu.Unlock()
	w.running.Wait()
}
