package har

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp"
)

const (
	eventQueue    = 32 << 10
	enableTimeout = 2 * time.Second // of a target; a busy one is not awaited
	pollInterval  = 2 * time.Millisecond

	outQueue    = 1024 // entries that are not added yet
	bodyQueue   = 256  // entries whose bodies are not fetched yet
	bodyWorkers = 4
	bodyTimeout = 5 * time.Second
	maxPending  = 32 << 20 // bytes of the bodies in memory, and of the messages of WebSockets

	sweepInterval = 250 * time.Millisecond
	extraWait     = time.Second      // for ExtraInfo events after the end of a request
	chainAge      = 10 * time.Second // after the end of a request, for its late events
	maxChains     = 20_000

	browserBuffer = 16 << 20 // bytes of the bodies that the browser keeps for a target
)

// MaxBody and MaxPost are the longest bodies of responses and requests that are recorded, in bytes.
const (
	MaxBody = 2 << 20
	MaxPost = 64 << 10
)

// MaxMessage is a limit for the messages of the connection, in bytes.
const MaxMessage = 32 << 20

// Options configures Collect. All functions may be nil. Page and Missed are called by the
// goroutine that calls add.
type Options struct {
	Ready    func()                 // called once: what begins later is recorded
	Secrets  func() []string        // values that must not be recorded
	KeepBody func(bytes int64) bool // whether a body is recorded; called concurrently
	Page     func(Page)             // a page, again when its times are known
	Missed   func()                 // entries are missing
	PageID   func() string          // ids of pages, unique in a log
}

// Collect adds the requests of all targets of a browser until ctx or the connection ends. It
// returns when the entries of all requests were added: those without a response have a
// comment. The connection must be of its own, since Collect attaches to all targets. Calls
// of add do not overlap. They may block for a while; entries that do not fit into memory
// meanwhile are missed. Errors: that of ctx or of the connection, or cdp.ErrLagged.
func Collect(ctx context.Context, conn *cdp.Conn, o Options, add func(Entry)) error {
	calls, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(bodyTimeout, end) })()
	c := &collector{
		Options: o, conn: conn, sessions: map[string]*session{}, chains: map[string]*chain{},
		out: make(chan item, outQueue), bodies: make(chan *exchange, bodyQueue), ctx: ctx, calls: calls,
	}
	events := conn.Subscribe(eventQueue, methods()...)
	defer events.Close()
	ended := make(chan error, 1)
	go func() { ended <- c.follow(ctx, events) }()
	var background sync.WaitGroup
	for range bodyWorkers {
		background.Go(c.fetchBodies)
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.write(add)
	}()
	err := c.begin(ctx, events)
	if err != nil {
		_ = conn.Close()
	}
	err = errors.Join(err, <-ended)
	close(c.bodies)
	background.Wait()
	c.work.Wait()
	close(c.out)
	<-written
	return err
}

// BrowserOf returns the name and the version of a browser.
func BrowserOf(ctx context.Context, conn *cdp.Conn) (Browser, error) {
	ctx, cancel := context.WithTimeout(ctx, enableTimeout)
	defer cancel()
	var answer struct{ Product string }
	if err := conn.Call(ctx, "", "Browser.getVersion", nil, &answer); err != nil {
		return Browser{}, err
	}
	_, version, _ := strings.Cut(answer.Product, "/")
	return Browser{Name: "Chromium", Version: version}, nil
}

// collector is the state of Collect. Its goroutine of events owns sessions and chains.
type collector struct {
	Options
	conn   *cdp.Conn
	ctx    context.Context
	calls  context.Context // of calls to the browser; it ends bodyTimeout after ctx
	out    chan item
	bodies chan *exchange
	work   sync.WaitGroup // calls in the background that end by themselves

	sessions map[string]*session // by CDP session
	chains   map[string]*chain   // by request id

	pages    int
	redactor *Redactor // of the writer

	enabling atomic.Int64 // targets
	pending  atomic.Int64 // bytes of requests and of bodies; only the goroutine of events adds some
	sockets  atomic.Int64 // bytes of messages of WebSockets; only the goroutine of events adds some
	full     atomic.Bool  // KeepBody has refused a body
	lost     atomic.Bool  // an item did not fit into out
}

// item is what the writer gets: one of these.
type item struct {
	exchange *exchange
	page     *Page
}

// session is a target. Frames and workers of a page share its tab.
type session struct {
	target string
	kind   string
	tab    *tab // nil for shared and service workers
}

// begin attaches to the targets and waits until those that exist are followed.
func (c *collector) begin(ctx context.Context, events *cdp.Subscription) error {
	attach := cdp.AutoAttach(true, "page", "service_worker", "shared_worker")
	if err := c.conn.Call(ctx, "", "Target.setAutoAttach", attach, nil); err != nil {
		return err
	}
	if err := events.Flush(ctx); err != nil {
		return err
	}
	for c.enabling.Load() > 0 {
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if c.Ready != nil {
		c.Ready()
	}
	return nil
}

// follow handles events until their end or that of ctx. It never blocks.
func (c *collector) follow(ctx context.Context, events *cdp.Subscription) error {
	sweep := time.NewTicker(sweepInterval)
	defer sweep.Stop()
	for {
		select {
		case e, ok := <-events.Events():
			if !ok {
				c.endAll("The browser ended before the response, or events were missed.")
				if errors.Is(events.Err(), cdp.ErrLagged) {
					c.lost.Store(true)
				}
				return events.Err()
			}
			c.handle(e)
		case now := <-sweep.C:
			c.sweep(now)
		case <-ctx.Done():
			for range len(events.Events()) {
				if e, ok := <-events.Events(); ok {
					c.handle(e)
				}
			}
			c.endAll("The recording ended before the response.")
			return context.Cause(ctx)
		}
	}
}

func (c *collector) handle(e cdp.Event) {
	switch e.Method {
	case "":
		close(e.Flushed)
	case "Target.attachedToTarget":
		c.attached(e)
	case "Target.detachedFromTarget":
		var p struct{ SessionID string }
		if json.Unmarshal(e.Params, &p) == nil {
			delete(c.sessions, p.SessionID)
			c.endSession(p.SessionID, "The page or the worker ended before the response.")
		}
	default:
		var p networkEvent
		if json.Unmarshal(e.Params, &p) != nil || p.RequestID == "" {
			c.lost.Store(true)
			return
		}
		c.network(e.SessionID, e.Method, p)
	}
}

// attached follows a new target, which waits until its requests are followed.
func (c *collector) attached(e cdp.Event) {
	var p struct {
		SessionID          string
		WaitingForDebugger bool
		TargetInfo         struct{ TargetID, Type string }
	}
	if json.Unmarshal(e.Params, &p) != nil {
		return
	}
	s := &session{target: p.TargetInfo.TargetID, kind: p.TargetInfo.Type}
	if parent := c.sessions[e.SessionID]; parent != nil {
		s.tab = parent.tab
	} else if s.kind == "page" {
		s.tab = &tab{target: s.target}
	}
	c.sessions[p.SessionID] = s
	c.enabling.Add(1)
	c.work.Go(func() {
		defer c.enabling.Add(-1)
		c.enable(p.SessionID)
	})
}

// enable requests the events of a target. All requests are sent before an answer is awaited:
// a waiting target answers some of them only after it continues.
func (c *collector) enable(session string) {
	ctx, cancel := context.WithTimeout(c.calls, enableTimeout)
	defer cancel()
	limits := map[string]any{"maxTotalBufferSize": browserBuffer, "maxResourceBufferSize": 2 * MaxBody, "maxPostDataSize": MaxPost}
	var replies []*cdp.Reply
	for _, call := range []struct {
		method string
		params any
	}{
		{"Network.enable", limits}, {"Target.setAutoAttach", cdp.AutoAttach(true, "iframe", "worker")}, {"Runtime.runIfWaitingForDebugger", nil},
	} {
		reply, err := c.conn.Send(ctx, session, call.method, call.params)
		if err != nil {
			break
		}
		replies = append(replies, reply)
	}
	for _, reply := range replies {
		_ = reply.Wait(ctx, nil) // some workers have no Target domain; a target may end at any time
	}
}

// emit hands an item to the writer; false if there is no room.
func (c *collector) emit(i item) bool {
	select {
	case c.out <- i:
		return true
	default:
		c.lost.Store(true)
		return false
	}
}

// write adds the entries until out is closed.
func (c *collector) write(add func(Entry)) {
	for i := range c.out {
		if c.lost.Swap(false) && c.Missed != nil {
			c.Missed()
		}
		switch {
		case i.page != nil && c.Page != nil:
			p := *i.page
			p.Title = CleanURL(p.Title, c.secrets())
			c.Page(p)
		case i.exchange != nil:
			add(c.entry(i.exchange))
			c.release(i.exchange)
		}
	}
	if c.lost.Swap(false) && c.Missed != nil {
		c.Missed()
	}
}
