package devtools

import (
	"context"
	"fmt"
	"sync"

	"github.com/browser-svc/svc/shared/fault"
)

var errClosing = fault.New(fault.Unavailable, "The worker is shutting down.")

// taskGroup holds all running tasks: relayed connections and calls to browsers.
// The number of tasks of a launch is bounded. Closing the group ends all tasks.
type taskGroup struct {
	ctx          context.Context // ends with close
	cancel       context.CancelFunc
	maxPerLaunch int // of one launch

	mu      sync.Mutex // orders begin against close
	running sync.WaitGroup
	open    map[string]int // by launch id
}

func newTaskGroup(most int) *taskGroup {
	w := &taskGroup{maxPerLaunch: most, open: map[string]int{}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// begin starts a task. It returns a fault if the group is closed or the launch
// has too many tasks. The caller must call end.
func (w *taskGroup) begin(launchID string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return errClosing
	}
	if w.open[launchID] >= w.maxPerLaunch {
		return fault.New(fault.Unavailable, fmt.Sprintf("This browser has reached its limit of %d connections. Close one before opening another.", w.maxPerLaunch))
	}
	w.open[launchID]++
	w.running.Add(1)
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

// runInBackground runs a function that does not count against a launch. It must
// be called between begin and end.
func (w *taskGroup) runInBackground(run func(ctx context.Context)) {
	w.running.Go(func() { run(w.ctx) })
}

// close ends all tasks and waits for them.
func (w *taskGroup) close() {
	w.mu.Lock()
	w.cancel()
	w.mu.Unlock()
	w.running.Wait()
}
