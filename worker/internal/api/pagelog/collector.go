package pagelog

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp"
)

const (
	eventQueue    = 16 << 10
	enableTimeout = 2 * time.Second // of a target; a busy one is not awaited
	pollInterval  = 2 * time.Millisecond
)

// collector adds the messages of all pages and workers of a browser to a log.
type collector struct {
	conn *cdp.Conn
	log  *Log
	work sync.WaitGroup

	mu      sync.Mutex
	targets map[string]string // target id by CDP session
	pending int               // targets whose messages are being requested
}

// collect starts to collect and returns when the messages of the open pages have
// arrived, within limits. It continues until the connection ends, which the caller
// closes; then wait must be called.
func collect(ctx context.Context, conn *cdp.Conn, log *Log) (*collector, error) {
	c := &collector{conn: conn, log: log, targets: map[string]string{}}
	events := conn.Subscribe(eventQueue, "Target.attachedToTarget", "Target.detachedFromTarget",
		"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
	c.work.Go(func() {
		for e := range events.Events() {
			if e.Flushed != nil {
				close(e.Flushed)
				continue
			}
			c.handle(e)
		}
		_ = conn.Close() // if events were lost
	})
	if err := conn.Call(ctx, "", "Target.setAutoAttach", cdp.AutoAttach(false, "page", "service_worker", "shared_worker"), nil); err != nil {
		return c, err
	}
	if err := events.Flush(ctx); err != nil { // the open pages are known
		return c, err
	}
	for !c.isIdle() {
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return c, context.Cause(ctx)
		}
	}
	return c, events.Flush(ctx)
}

// wait waits for the end of all work, after the connection has ended.
func (c *collector) wait() { c.work.Wait() }

func (c *collector) isIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending == 0
}

func (c *collector) handle(event cdp.Event) {
	switch event.Method {
	case "Target.attachedToTarget":
		c.attached(event)
	case "Target.detachedFromTarget":
		var p struct{ SessionID string }
		_ = json.Unmarshal(event.Params, &p) // "" for an invalid event
		c.mu.Lock()
		delete(c.targets, p.SessionID)
		c.mu.Unlock()
	default:
		if e, ok := entryOf(event); ok {
			c.mu.Lock()
			e.TargetID = c.targets[event.SessionID]
			c.mu.Unlock()
			c.log.add(e)
		}
	}
}

// attached requests the messages of a new target, and those that it already has.
func (c *collector) attached(event cdp.Event) {
	var p struct {
		SessionID  string
		TargetInfo struct{ TargetID, Type string }
	}
	if json.Unmarshal(event.Params, &p) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	target := p.TargetInfo.TargetID
	if tab := c.targets[event.SessionID]; tab != "" { // a frame or a worker of a tab
		target = tab
	}
	c.targets[p.SessionID] = target
	c.pending++
	c.work.Go(func() { c.enable(p.SessionID) })
}

func (c *collector) enable(session string) {
	defer func() {
		c.mu.Lock()
		c.pending--
		c.mu.Unlock()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), enableTimeout)
	defer cancel()
	var replies []*cdp.Reply
	for _, call := range []struct {
		method string
		params any
	}{
		{"Runtime.enable", nil}, {"Log.enable", nil}, {"Target.setAutoAttach", cdp.AutoAttach(false, "iframe", "worker")},
	} {
		reply, err := c.conn.Send(ctx, session, call.method, call.params)
		if err != nil {
			return
		}
		replies = append(replies, reply)
	}
	for _, reply := range replies {
		_ = reply.Wait(ctx, nil) // workers have no Target domain; a target may end at any time
	}
}
