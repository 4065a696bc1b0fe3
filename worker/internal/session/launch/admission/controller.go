// Package admission decides when this machine takes a launch. Controller owns the queue of
// waiting launches and the numbers of launches and sessions; Keys limits the requests to the
// cloud with keys that the cloud has not accepted yet. Only the launch package imports it.
// Each of both types has its own lock. A timer of the Controller runs while launches wait.
package admission

import (
	"context"
	"sync"
	"time"

	"github.com/browser-svc/svc/shared/fault"
)

// Policy decides whether this machine has capacity for one more launch. Its error is
// returned to the client. It is called with a lock held, so it must not block.
type Policy interface {
	Admit(running, launching int) error
}

// Options configures a Controller.
type Options struct {
	Policy     Policy              // nil: every launch is admitted
	MaxWaiting int                 // bounds the launches that wait; 0: DefaultMaxWaiting
	Queued     func() (end func()) // called when a launch begins to wait, and end when it no longer waits
}

// Controller admits launches to this machine in the order of their arrival.
type Controller struct {
	Options

	launches sync.WaitGroup // launches in progress, also those that wait

	mu                 sync.Mutex
	retired            bool // permanently
	draining           bool
	launching, running int
	queue              []*Place        // launches that wait, in order of arrival
	waiting            context.Context // ends, with the reason, when waiting launches are refused
	refuse             context.CancelCauseFunc
	checkScheduled     bool // the queue will be checked
}

// New returns a Controller that admits launches.
func New(options Options) *Controller {
	if options.MaxWaiting == 0 {
		options.MaxWaiting = DefaultMaxWaiting
	}
	c := &Controller{Options: options}
	c.waiting, c.refuse = context.WithCancelCause(context.Background())
	return c
}

// Place is the place of a launch, and later of its session, on this machine.
type Place struct {
	controller *Controller
	counter    *int // the number that includes it; nil: none does

	// Of a launch that waits.
	admitted chan struct{}   // closed when it is counted
	refused  context.Context // Controller.waiting of the time when it began to wait
}

// Enter admits a launch if the machine has capacity, or waits for it at most for the given
// time; 0 is not at all. With verified, the launch is counted at once. Another launch has a
// key that may be invalid, and counts only after Count. The caller must call Done.
func (c *Controller) Enter(ctx context.Context, wait time.Duration, verified bool) (*Place, error) {
	p := &Place{controller: c}
	if err := c.enter(p, wait > 0, verified); err != nil {
		return nil, err
	}
	if p.admitted == nil {
		return p, nil
	}
	if err := c.await(ctx, p, wait); err != nil {
		p.Done()
		return nil, err
	}
	return p, nil
}

func (c *Controller) enter(p *Place, waits, verified bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkOpen(); err != nil {
		return err
	}
	err := c.checkCapacity()
	if err == nil && len(c.queue) > 0 {
		err = errOthersWait
	}
	switch {
	case err == nil && verified:
		p.count(&c.launching)
	case err != nil && waits:
		err = c.enqueue(p)
	}
	if err == nil {
		c.launches.Add(1)
	}
	return err
}

// count moves the place to a counter; nil is none. The caller holds the lock.
func (p *Place) count(counter *int) {
	if p.counter != nil {
		*p.counter--
	}
	if p.counter = counter; counter != nil {
		*counter++
	}
}

// Count counts a launch that the cloud has authorized, unless it is already counted. It
// returns an error if the machine has no capacity left.
func (p *Place) Count() error {
	c := p.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.counter != nil {
		return nil
	}
	if err := c.checkOpen(); err != nil {
		return err
	}
	if err := c.checkCapacity(); err != nil {
		return err
	}
	p.count(&c.launching)
	return nil
}

// Run makes a counted launch a running session, whose end calls Release.
func (p *Place) Run() {
	p.controller.mu.Lock()
	defer p.controller.mu.Unlock()
	p.count(&p.controller.running)
}

// Release frees the capacity of a session.
func (p *Place) Release() {
	p.controller.mu.Lock()
	defer p.controller.mu.Unlock()
	p.count(nil)
	p.controller.admitWaiting()
}

// Done ends the launch. It frees its capacity, unless the launch has become a session.
func (p *Place) Done() {
	c := p.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.counter == &c.launching {
		p.count(nil)
		c.admitWaiting()
	}
	c.launches.Done()
}

var (
	errShuttingDown = fault.New(fault.Unavailable, "This worker is shutting down.")
	errDraining     = fault.New(fault.Unavailable, "This worker is draining.")
)

// checkOpen returns an error if the worker accepts no launches. The caller holds the lock.
func (c *Controller) checkOpen() error {
	switch {
	case c.retired:
		return errShuttingDown
	case c.draining:
		return errDraining
	}
	return nil
}

// checkCapacity returns an error if the machine has no capacity for another launch. The
// caller must hold the lock and count the launch before releasing it, so that two launches
// never get the same capacity.
func (c *Controller) checkCapacity() error {
	if c.Policy != nil {
		return c.Policy.Admit(c.running, c.launching)
	}
	return nil
}

// SetDraining refuses new and waiting launches, or accepts launches again.
func (c *Controller) SetDraining(draining bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = draining
	c.refuseWaiting()
}

// Retire refuses new and waiting launches permanently.
func (c *Controller) Retire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retired = true
	c.refuseWaiting()
}

// Draining reports whether launches are refused because of SetDraining or Retire.
func (c *Controller) Draining() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.checkOpen() != nil
}

// Counts returns the numbers of running sessions and of counted launches.
func (c *Controller) Counts() (running, launching int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running, c.launching
}

// Wait waits for the end of all launches. Call Retire before.
func (c *Controller) Wait() { c.launches.Wait() }

// Canceled returns the error of a launch whose client has gone.
func Canceled(cause error) error {
	return fault.Wrap(cause, fault.Unavailable, "The launch was canceled.")
}
