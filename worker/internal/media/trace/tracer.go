package trace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/cdp/tap"
)

const (
	maxQueued      = 16384    // records
	maxQueuedBytes = 16 << 20 // of their messages
	maxOpen        = 500      // actions
	maxSessions    = 10000    // of clients
	maxNotes       = 20       // in the log of an action

	idleAfter    = 500 * time.Millisecond // without a command, typing and scrolling have ended
	tickInterval = 100 * time.Millisecond
)

// Recorder records the trace of one browser, from New on.
type Recorder struct {
	Source
	records chan tap.Record
	stop    func()
	lost    atomic.Int64 // records
	missed  atomic.Bool  // requests
	queued  atomic.Int64 // bytes
	bodies  atomic.Int64 // bytes of responses

	began            bool
	calls, snapshots int
}

// New returns the Recorder of a browser. The caller must call Close.
func New(s Source) *Recorder {
	r := &Recorder{Source: s, records: make(chan tap.Record, maxQueued)}
	r.stop = s.Tap.Observe(r.observe)
	return r
}

// Close ends the observation of commands. It may be called again.
func (r *Recorder) Close() { r.stop() }

// observe queues a record, or counts it as lost.
func (r *Recorder) observe(record tap.Record) {
	if r.queued.Add(int64(len(record.Data))) <= maxQueuedBytes {
		select {
		case r.records <- record:
			return
		default:
		}
	}
	r.queued.Add(-int64(len(record.Data)))
	r.lost.Add(1)
}

// callKey identifies a command that waits for its answer.
type callKey struct {
	client *tap.Client
	id     int64
}

// tracer is a Recorder with a connection. Only its loop uses its fields.
type tracer struct {
	*Recorder
	w       *Writer
	conn    *cdp.Conn
	events  *cdp.Subscription
	world   string
	results chan func()
	work    sync.WaitGroup

	pages    map[string]*page // by target
	current  string           // target of the latest command
	sessions map[*tap.Client]map[string]string
	elements map[string]string // how elements of WebDriver were found, by id
	waiting  map[callKey]*action
	actions  []*action // unfinished, in order
	latest   *action   // to which repetitions can be added
	notes    []string  // for the next action
	internal int       // evaluations since the last action

	captures chan captureRequest
	busy     *captureRequest // the capture in progress
}

func newTracer(r *Recorder, w *Writer) *tracer {
	return &tracer{
		Recorder: r, w: w, world: rand.Text(), results: make(chan func()),
		pages: map[string]*page{}, sessions: map[*tap.Client]map[string]string{}, waiting: map[callKey]*action{}, elements: map[string]string{},
		captures: make(chan captureRequest, 1),
	}
}

// Run records until ctx or the connection ends. It may be called again.
func (r *Recorder) Run(ctx context.Context, w *Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	t := newTracer(r, w)
	defer t.work.Wait()
	defer cancel()
	w.begin(r.Filled.Values)
	if !r.began {
		r.began = true
		t.writeHeader()
	}
	var err error
	if t.conn, err = r.Connect(ctx); err != nil {
		return err
	}
	defer func() { _ = t.conn.Close() }()
	if t.events, err = t.subscribe(ctx); err != nil {
		return err
	}
	defer t.events.Close()
	messages := make(chan Message, 256)
	t.work.Go(func() {
		_ = r.Messages(ctx, func(m Message) { // ends with the browser, as the connection does
			select {
			case messages <- m:
			case <-ctx.Done():
			}
		})
	})
	t.work.Go(func() { t.captureRequested(ctx) })
	t.work.Go(func() { t.followRequests(ctx) })
	t.work.Go(func() { t.followSteps(ctx) })
	return t.loop(ctx, messages)
}

func (t *tracer) writeHeader() {
	t.w.line(object{
		"type": "context-options", "version": version, "origin": "library", "browserName": "chromium", "title": t.Title, "platform": runtime.GOOS,
		"playwrightVersion": "", "options": object{}, "wallTime": millis(t.Began), "monotonicTime": t.w.offset(t.Began), "sdkLanguage": "javascript", "contextId": "context@1",
		"channel": t.Browser,
	})
}

func (t *tracer) loop(ctx context.Context, messages <-chan Message) error {
	tick := time.NewTicker(tickInterval)
	defer tick.Stop()
	for {
		select {
		case r := <-t.records:
			t.drainEvents(ctx) // the page of a command was opened before it
			t.handle(ctx, r)
		case e, open := <-t.events.Events():
			if !open {
				t.end()
				return errors.Join(errors.New("trace: the connection has ended"), t.events.Err())
			}
			t.pageEvent(ctx, e)
		case m := <-messages:
			t.message(m)
		case apply := <-t.results:
			apply()
		case now := <-tick.C:
			t.idle(ctx, now)
		case <-ctx.Done():
			t.end()
			return context.Cause(ctx)
		}
	}
}

// drainEvents handles the events that have arrived.
func (t *tracer) drainEvents(ctx context.Context) {
	for range len(t.events.Events()) {
		if e, open := <-t.events.Events(); open {
			t.pageEvent(ctx, e)
		}
	}
}

// apply runs a function in the loop.
func (t *tracer) apply(ctx context.Context, f func()) {
	select {
	case t.results <- f:
	case <-ctx.Done():
	}
}

// end writes the rest.
func (t *tracer) end() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for len(t.records) > 0 {
		t.handle(ended, <-t.records)
	}
	t.reportLost()
	for _, a := range t.actions {
		if a.ended.IsZero() {
			a.ended = time.Now()
			a.log("the trace ended before the answer")
		}
		if a.changes && !a.captured && a.after == "" {
			a.log("no snapshot: the trace ended")
		}
		t.w.hideTyped(a)
		a.write(t.w)
	}
	t.actions = nil
}

// reportLost writes a mark if commands or requests were lost.
func (t *tracer) reportLost() {
	if lost := t.lost.Swap(0); lost > 0 {
		t.mark("lost: {count} commands or answers came too fast", object{"count": lost})
	}
	if t.missed.Swap(false) {
		t.mark("lost: requests before this are missing", object{})
	}
}

// mark writes an action that says what is missing.
func (t *tracer) mark(title string, params object) {
	a := t.newAction(step{kind: single, title: title, class: "Trace", method: "lost", params: params}, &tap.Client{Name: "worker"}, "", time.Now())
	a.open, a.ended = false, time.Now()
	t.finish()
}

// message writes a message of a page.
func (t *tracer) message(m Message) {
	offset := t.w.offset(m.At)
	if m.Exception {
		t.w.line(object{
			"type": "event", "time": offset, "class": "BrowserContext", "method": "pageError", "pageId": pageID(m.TargetID),
			"params": object{"error": object{"error": object{"name": "Error", "message": m.Text, "stack": fmt.Sprintf("%s\n    at %s:%d:%d", m.Text, m.URL, m.Line, m.Column)}}},
		})
		return
	}
	t.w.line(object{
		"type": "console", "messageType": m.Level, "text": m.Text, "args": []object{}, "time": offset, "pageId": pageID(m.TargetID),
		"location": object{"url": m.URL, "lineNumber": max(m.Line-1, 0), "columnNumber": max(m.Column-1, 0)},
	})
}
