package devtools

import (
	"context"
	"sync"

	"github.com/browser-svc/svc/shared/fault"
)

var errClosing = fault.New(fault.Unavailable, "The worker is shutting down.")

// work is what outlives a handler's say: connections that were taken over and
// pictures being taken. Closing it ends all of it.
type work struct {
	ctx    context.Context // ends with close
	cancel context.CancelFunc

	mu      sync.Mutex // orders begin against close
	running sync.WaitGroup
}

func newWork() *work {
	w := &work{}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// begin admits one more piece; false once closed. end must follow.
func (w *work) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return false
	}
	w.running.Add(1)
	return true
}

func (w *work) end() { w.running.Done() }

// close returns when everything has ended.
func (w *work) close() {
	w.mu.Lock()
	w.cancel()
	w.mu.Unlock()
	w.running.Wait()
}
