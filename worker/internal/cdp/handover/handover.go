// Package handover lets a client hand its browser to a person and wait: the client
// states a reason, and the messages of all clients are held until the person is done,
// the timeout passes or the client cancels. It also asks a person whether the browser may
// open a document.
package handover

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
)

// Limits of a Request. The API document has the same.
const (
	MaxReason      = 500 // characters
	MaxNote        = 500 // characters
	MinTimeout     = time.Second
	MaxTimeout     = 12 * time.Hour
	DefaultTimeout = 10 * time.Minute
)

// The refusals.
var (
	ErrOpen = fault.New(fault.Conflict,
		"A handover of this browser is already open. Wait until it ends, or cancel it (Svc.cancelHuman, DELETE /browsers/{launchId}/handover).")
	ErrNone  = fault.New(fault.Conflict, "No handover of this browser is open.")
	ErrEnded = fault.New(fault.Conflict, "The browser has ended.")
)

// Outcome is how a handover ended.
type Outcome string

// The outcomes.
const (
	Done         Outcome = "done"    // the person is done
	TimedOut     Outcome = "timeout" // the person was not done in time
	Canceled     Outcome = "canceled"
	BrowserEnded Outcome = "ended" // the browser ended meanwhile
)

// Request is a request for a person.
type Request struct {
	Reason  string // for the person
	Timeout time.Duration
}

// Check returns a fault that names every invalid field.
func (r Request) Check() error {
	var details []fault.Detail
	switch {
	case strings.TrimSpace(r.Reason) == "":
		details = append(details, fault.Detail{Field: "reason", Code: fault.Required, Message: "must say what the person is to do"})
	case !utf8.ValidString(r.Reason) || utf8.RuneCountInString(r.Reason) > MaxReason:
		details = append(details, fault.Detail{Field: "reason", Code: fault.TooLong, Message: "must have at most 500 characters"})
	}
	if r.Timeout < MinTimeout || r.Timeout > MaxTimeout {
		details = append(details, fault.Detail{Field: "timeoutSeconds", Code: fault.Custom, Message: "must be between 1 and 43200"})
	}
	if len(details) > 0 {
		return fault.Invalid(details...)
	}
	return nil
}

// Result is the end of a handover.
type Result struct {
	Outcome  Outcome
	Duration time.Duration
	Note     string // of the person; may be empty
}

// Seconds returns the duration in seconds, with milliseconds.
func (r Result) Seconds() float64 { return r.Duration.Round(time.Millisecond).Seconds() }

// Handover is one handover.
type Handover struct {
	Reason string
	Since  time.Time
	Until  time.Time // its timeout

	handovers *Handovers
	began     time.Time
	ctx       context.Context // ends with the handover
	cancel    context.CancelFunc
	timer     *time.Timer
	result    Result              // set before ctx ends
	report    func(result Result) // of the observer; may be nil
}

// Ended returns a channel that is closed when the handover has ended.
func (o *Handover) Ended() <-chan struct{} { return o.ctx.Done() }

// Result returns the end of the handover; ok is false while it is open.
func (o *Handover) Result() (result Result, ok bool) {
	if o.ctx.Err() == nil {
		return Result{}, false
	}
	return o.result, true
}

// Cancel ends the handover unless it has ended.
func (o *Handover) Cancel() { _ = o.handovers.end(o, Result{Outcome: Canceled}) }

// Handovers are the handovers of one browser, one at a time. Nil has none. It is safe
// for concurrent use.
type Handovers struct {
	open atomic.Pointer[Handover] // nil while none is open

	mu      sync.Mutex
	last    *Handover     // the open one, or the last that has ended
	closed  bool          // the browser has ended
	changed chan struct{} // closed at the next begin or end
	observe func(Handover) (ended func(Result))

	questions       []*Question         // that are open
	permissions     map[permission]bool // for the session
	observeQuestion func(*Question) (ended func(Decision))
}

// New returns the Handovers of a browser.
func New() *Handovers { return &Handovers{changed: make(chan struct{})} }

// Observe has observe called for each handover that begins, and the function that it
// returns when that handover ends. Both must not block.
func (h *Handovers) Observe(observe func(Handover) (ended func(Result))) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.observe = observe
}

// Held returns a context that ends with the open handover; nil if none is open. While
// it lasts, messages of clients must not reach the browser.
func (h *Handovers) Held() context.Context {
	if h == nil {
		return nil
	}
	if open := h.open.Load(); open != nil {
		return open.ctx
	}
	return nil
}

// Open returns the open handover, or nil.
func (h *Handovers) Open() *Handover {
	if h == nil {
		return nil
	}
	return h.open.Load()
}

// Last returns the open handover or the last one, nil if there was none, and a channel
// that is closed when a handover or a question begins or ends.
func (h *Handovers) Last() (last *Handover, changed <-chan struct{}) {
	if h == nil {
		return nil, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last, h.changed
}

// Begin begins a handover. Errors: Validation, ErrOpen, ErrEnded.
func (h *Handovers) Begin(r Request) (*Handover, error) {
	if h == nil {
		return nil, ErrEnded
	}
	if err := r.Check(); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, ErrEnded
	case h.open.Load() != nil:
		return nil, ErrOpen
	}
	now := clock.System{}.Now()
	handover := &Handover{Reason: r.Reason, Since: now, Until: now.Add(r.Timeout), handovers: h, began: time.Now()}
	handover.ctx, handover.cancel = context.WithCancel(context.Background())
	if h.observe != nil {
		handover.report = h.observe(Handover{Reason: handover.Reason, Since: handover.Since, Until: handover.Until})
	}
	handover.timer = time.AfterFunc(r.Timeout, func() { _ = h.end(handover, Result{Outcome: TimedOut}) })
	h.last = handover
	h.open.Store(handover)
	h.notify()
	return handover, nil
}

// Finish ends the open handover because the person is done. Error: ErrNone.
func (h *Handovers) Finish(note string) (*Handover, error) {
	return h.endOpen(Result{Outcome: Done, Note: note})
}

// Cancel ends the open handover. Error: ErrNone.
func (h *Handovers) Cancel() (*Handover, error) { return h.endOpen(Result{Outcome: Canceled}) }

// Close ends the open handover and all questions because the browser has ended, and refuses
// others.
func (h *Handovers) Close() {
	h.mu.Lock()
	h.closed = true
	for _, q := range slices.Clone(h.questions) {
		h.decide(q, Withdrawn)
	}
	h.mu.Unlock()
	_, _ = h.endOpen(Result{Outcome: BrowserEnded})
}

func (h *Handovers) endOpen(r Result) (*Handover, error) {
	open := h.Open()
	if open == nil {
		return nil, ErrNone
	}
	return open, h.end(open, r)
}

// end ends a handover. Error: ErrNone if it has ended.
func (h *Handovers) end(handover *Handover, r Result) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open.Load() != handover {
		return ErrNone
	}
	handover.timer.Stop()
	r.Duration = time.Since(handover.began)
	handover.result = r
	h.open.Store(nil)
	h.notify()
	if handover.report != nil {
		handover.report(r)
	}
	handover.cancel()
	return nil
}

// notify wakes the calls that wait for a change. The caller holds the lock.
func (h *Handovers) notify() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// Seconds returns a timeout. One that is not allowed stays so.
func Seconds(n int64) time.Duration {
	limit := int64(MaxTimeout/time.Second) + 1
	return time.Duration(min(max(n, 0), limit)) * time.Second
}
