package cdp

import (
	"errors"
	"slices"
)

// ErrLagged ends a subscription whose queue was full: events have been missed,
// and only its owner knows what that means.
var ErrLagged = errors.New("cdp: subscription lagged behind")

// Subscription receives the events of some methods, in order, of all sessions.
type Subscription struct {
	conn    *Conn
	methods []string
	queue   chan Event
	err     error
	ended   bool
}

// Subscribe starts a subscription to these methods (none means all) with room
// for that many unread events.
func (c *Conn) Subscribe(room int, methods ...string) *Subscription {
	s := &Subscription{conn: c, methods: methods, queue: make(chan Event, max(room, 1))}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		s.finish(c.err)
		return s
	}
	c.subs[s] = struct{}{}
	return s
}

// Events is closed when the subscription ends; Err says why.
func (s *Subscription) Events() <-chan Event { return s.queue }

// Err is nil while the subscription runs and after Close, ErrLagged when
// events were missed, and the connection's error when that ended.
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

func (s *Subscription) matches(method string) bool {
	return len(s.methods) == 0 || slices.Contains(s.methods, method)
}

// finish is called with the connection's lock held, as are all sends.
func (s *Subscription) finish(err error) {
	if s.ended {
		return
	}
	s.ended, s.err = true, err
	close(s.queue)
}
