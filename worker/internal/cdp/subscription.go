package cdp

import (
	"context"
	"errors"
	"slices"
)

// ErrLagged is the error of a subscription that ended because its queue was full and
// events were dropped.
var ErrLagged = errors.New("cdp: subscription lagged behind")

// Subscription receives the events of some methods, in order, of all sessions.
type Subscription struct {
	conn    *Conn
	methods []string
	queue   chan Event
	err     error
	ended   bool
}

// Subscribe starts a subscription to these methods (none means all) with a queue of
// that many unread events.
func (c *Conn) Subscribe(size int, methods ...string) *Subscription {
	s := &Subscription{conn: c, methods: methods, queue: make(chan Event, max(size, 1))}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		s.finish(c.err)
		return s
	}
	c.subs[s] = struct{}{}
	return s
}

// Events returns the queue of events. It is closed when the subscription ends; Err returns why.
func (s *Subscription) Events() <-chan Event { return s.queue }

// Err returns nil while the subscription runs and after Close, ErrLagged if events
// were dropped, and the connection's error if the connection ended.
func (s *Subscription) Err() error {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return s.err
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	delete(s.conn.subs, s)
	s.finish(nil)
}

// Flush waits until the receiver has handled the events that were received so far: it queues an event with Flushed. It
// returns the error of the subscription if that has ended.
func (s *Subscription) Flush(ctx context.Context) error {
	e := Event{Flushed: make(chan struct{})}
	s.conn.mu.Lock()
	if !s.ended {
		s.deliver(e)
	}
	ended, err := s.ended, s.err
	s.conn.mu.Unlock()
	if ended {
		return err
	}
	select {
	case <-e.Flushed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// deliver queues an event, or ends the subscription if its queue is full. The caller holds the connection's lock.
func (s *Subscription) deliver(e Event) {
	select {
	case s.queue <- e:
	default:
		s.finish(ErrLagged)
		delete(s.conn.subs, s)
	}
}

func (s *Subscription) matches(method string) bool {
	return len(s.methods) == 0 || slices.Contains(s.methods, method)
}

// finish ends the subscription. The caller holds the connection's lock, as for all sends.
func (s *Subscription) finish(err error) {
	if s.ended {
		return
	}
	s.ended, s.err = true, err
	close(s.queue)
}
