package cloudtest

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
)

const (
	queueTTL      = 10 * time.Second // how long a place lasts without a request
	queueInterval = 5 * time.Millisecond
)

// queued is a launch that waits for a slot.
type queued struct {
	session uuid.UUID
	until   time.Time // when it loses its place; zero while its request waits
}

// awaitTurn waits until the launch can take a slot. Otherwise it returns its position in
// the queue, and whether it keeps its place. The caller holds the lock, which is released
// meanwhile.
func (c *Cloud) awaitTurn(ctx context.Context, asked *cloudapi.AuthorizeRequest) (position int, keeps bool, err error) {
	var wait, poll int32
	if asked.WaitSeconds != nil {
		wait, poll = *asked.WaitSeconds, *asked.WaitSeconds
	}
	if asked.PollSeconds != nil {
		poll = min(wait, *asked.PollSeconds)
	}
	over := time.Now().Add(time.Duration(poll) * time.Second)
	for {
		at := c.position(asked.SessionId)
		switch {
		case c.limit == nil || len(c.slots)+at < *c.limit:
			c.leaveQueue(asked.SessionId)
			return 0, false, nil
		case wait == 0:
			return at + 1, false, nil
		case at == len(c.queue):
			c.queue = append(c.queue, queued{session: asked.SessionId})
		}
		c.queue[at].until = time.Time{}
		if !time.Now().Before(over) {
			if poll == wait {
				c.leaveQueue(asked.SessionId)
				return at + 1, false, nil
			}
			c.queue[at].until = time.Now().Add(queueTTL)
			return at + 1, true, nil
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(queueInterval):
		}
		c.mu.Lock()
		if ctx.Err() != nil {
			c.leaveQueue(asked.SessionId)
			return 0, false, ctx.Err()
		}
	}
}

// position returns the number of launches ahead of a session.
func (c *Cloud) position(session uuid.UUID) int {
	now := time.Now()
	c.queue = slices.DeleteFunc(c.queue, func(q queued) bool { return !q.until.IsZero() && q.until.Before(now) })
	if i := slices.IndexFunc(c.queue, func(q queued) bool { return q.session == session }); i >= 0 {
		return i
	}
	return len(c.queue)
}

func (c *Cloud) leaveQueue(session uuid.UUID) {
	c.queue = slices.DeleteFunc(c.queue, func(q queued) bool { return q.session == session })
}
