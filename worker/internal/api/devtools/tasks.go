package devtools

import (
	"context"
	"sync"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

var errClosing = fault.New(fault.Unavailable, "The worker is shutting down.")

// taskGroup holds all running tasks: relayed connections and calls to browsers. A launch
// has at most sandbox.MaxConnections. Closing the group ends all tasks.
type taskGroup struct {
	ctx    context.Context // ends with close
	cancel context.CancelFunc

	mu      sync.Mutex // orders begin against close
	running sync.WaitGroup
	open    map[string]int // by launch id
}

func newTaskGroup() *taskGroup {
	w := &taskGroup{open: map[string]int{}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// begin starts a task. It returns a fault if the group is closed or the launch
// has too many tasks. The caller must call end.
func (w *taskGroup) begin(launchID string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open[launchID] >= sandbox.MaxConnections {
		return sandbox.ErrBusy
	}
	if err := w.enterLocked(); err != nil {
		return err
	}
	w.open[launchID]++
	return nil
}

func (w *taskGroup) end(launchID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open[launchID]--; w.open[launchID] == 0 {
		delete(w.open, launchID)
	}
	w.running.Done()
}

// enter starts a task that does not count against a launch. It returns a fault if the
// group is closed. The caller must call running.Done.
func (w *taskGroup) enter() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.enterLocked()
}

// enterLocked is enter. The caller holds the lock.
func (w *taskGroup) enterLocked() error {
	if w.ctx.Err() != nil {
		return errClosing
	}
	w.running.Add(1)
	return nil
}

// close ends all tasks and waits for them.
func (w *taskGroup) close() {
	w.mu.Lock()
	w.cancel()
	w.mu.Unlock()
	w.running.Wait()
}
