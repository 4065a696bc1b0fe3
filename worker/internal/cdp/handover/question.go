package handover

import (
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
)

const (
	maxQuestions = 16   // that are open at a time
	maxURL       = 2048 // characters of a URL in a question
)

// The refusals of questions.
var (
	ErrManyQuestions = fault.New(fault.Conflict, "Too many documents of this browser wait for a person.")
	ErrNoQuestion    = fault.New(fault.Conflict, "No such question is open: it was answered, its time has passed, or its page has opened another document.")
)

// Decision is how a question ended.
type Decision string

// The decisions. The first three are answers of a person; the others refuse.
const (
	AllowOnce       Decision = "once"
	AllowForSession Decision = "session" // also later documents of the same origin for the same rule
	Refuse          Decision = "refuse"

	Unanswered Decision = "timeout"
	Withdrawn  Decision = "withdrawn" // the document is not needed any more
)

// Question asks a person whether the browser may open a document. It does not hold the
// messages of clients.
type Question struct {
	ID     uuid.UUID
	URL    string // without user and password, shortened
	Origin string // of the URL; the whole URL if it has none
	Rule   string // that asks
	Since  time.Time
	Until  time.Time // refused then

	frame     string
	handovers *Handovers
	ctx       context.Context // ends with the question
	cancel    context.CancelFunc
	timer     *time.Timer
	decision  Decision       // set before ctx ends
	report    func(Decision) // of the observer; may be nil
}

// Ended returns a channel that is closed when the question has ended.
func (q *Question) Ended() <-chan struct{} { return q.ctx.Done() }

// Allowed reports whether a person has allowed the document.
func (q *Question) Allowed() bool {
	return q.ctx.Err() != nil && (q.decision == AllowOnce || q.decision == AllowForSession)
}

// Withdraw ends the question unless it has ended.
func (q *Question) Withdraw() {
	h := q.handovers
	h.mu.Lock()
	defer h.mu.Unlock()
	h.decide(q, Withdrawn)
}

// permission is what a person allows for a session.
type permission struct{ origin, rule string }

// ObserveQuestions has observe called for each question that begins, and the function that
// it returns when that question ends. Both must not block.
func (h *Handovers) ObserveQuestions(observe func(*Question) (ended func(Decision))) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.observeQuestion = observe
}

// Ask asks a person whether a frame may open a document that a rule holds; an earlier
// question of the frame is withdrawn. The question has ended already if a person has allowed
// such documents for the session. Errors: ErrManyQuestions, ErrEnded.
func (h *Handovers) Ask(frame, address, rule string, timeout time.Duration) (*Question, error) {
	if h == nil {
		return nil, ErrEnded
	}
	now := clock.System{}.Now()
	q := &Question{ID: uuid.New(), Rule: rule, Since: now, Until: now.Add(timeout), frame: frame, handovers: h}
	q.URL, q.Origin = describeURL(address)
	q.ctx, q.cancel = context.WithCancel(context.Background())
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		q.cancel()
		return nil, ErrEnded
	}
	for _, other := range slices.Clone(h.questions) {
		if other.frame == frame {
			h.decide(other, Withdrawn)
		}
	}
	if h.permissions[permission{q.Origin, rule}] {
		q.decision = AllowForSession
		q.cancel()
		return q, nil
	}
	if len(h.questions) >= maxQuestions {
		q.cancel()
		return nil, ErrManyQuestions
	}
	if h.observeQuestion != nil {
		q.report = h.observeQuestion(q)
	}
	q.timer = time.AfterFunc(timeout, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.decide(q, Unanswered)
	})
	h.questions = append(h.questions, q)
	h.notify()
	return q, nil
}

// Questions returns the open questions, in order of time.
func (h *Handovers) Questions() []*Question {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.questions)
}

// Answer ends an open question, and with AllowForSession also those that it covers.
// Error: ErrNoQuestion.
func (h *Handovers) Answer(id uuid.UUID, d Decision) (*Question, error) {
	if h == nil {
		return nil, ErrNoQuestion
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.questions, func(q *Question) bool { return q.ID == id })
	if i < 0 {
		return nil, ErrNoQuestion
	}
	q := h.questions[i]
	h.decide(q, d)
	if d != AllowForSession {
		return q, nil
	}
	if h.permissions == nil {
		h.permissions = map[permission]bool{}
	}
	h.permissions[permission{q.Origin, q.Rule}] = true
	for _, other := range slices.Clone(h.questions) {
		if other.Origin == q.Origin && other.Rule == q.Rule {
			h.decide(other, d)
		}
	}
	return q, nil
}

// decide ends a question unless it has ended. The caller holds the lock.
func (h *Handovers) decide(q *Question, d Decision) {
	i := slices.Index(h.questions, q)
	if i < 0 {
		return
	}
	q.timer.Stop()
	q.decision = d
	h.questions = slices.Delete(h.questions, i, i+1)
	h.notify()
	if q.report != nil {
		q.report(d)
	}
	q.cancel()
}

// describeURL returns a URL for a person, and its origin.
func describeURL(address string) (shortened, origin string) {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		u.User = nil
		address, origin = u.String(), u.Scheme+"://"+u.Host
	}
	if runes := []rune(address); len(runes) > maxURL {
		address = string(runes[:maxURL-1]) + "…"
	}
	if origin == "" {
		origin = address
	}
	return address, origin
}
