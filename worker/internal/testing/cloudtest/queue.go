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
func (c *Cloud) awaitTurn(ctx context.Context, request *cloudapi.AuthorizeRequest) (position int, keeps bool, err error) {
	var wait, poll int32
	if request.WaitSeconds != nil {
		wait, poll = *request.WaitSeconds, *request.WaitSeconds
	}
	if request.PollSeconds != nil {
		poll = min(wait, *request.PollSeconds)
	}
	over := time.Now().Add(time.Duration(poll) * time.Second)
	for {
		index := c.position(request.SessionId)
		switch {
		case c.limit == nil || len(c.slots)+index < *c.limit:
			c.leaveQueue(request.SessionId)
			return 0, false, nil
		case wait == 0:
			return index + 1, false, nil
		case index == len(c.queue):
			c.queue = append(c.queue, queued{session: request.SessionId})
		}
		c.queue[index].until = time.Time{}
		if !time.Now().Before(over) {
			if poll == wait {
				c.leaveQueue(request.SessionId)
				return index + 1, false, nil
			}
			c.queue[index].until = time.Now().Add(queueTTL)
			return index + 1, true, nil
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(queueInterval):
		}
		c.mu.Lock()
		if ctx.Err() != nil {
			c.leaveQueue(request.SessionId)
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
