package trace

import (
	"strconv"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp/tap"
)

// action is an action of a client.
type action struct {
	step
	id     string
	page   string // target id; "" if unknown
	client *tap.Client

	began, ended time.Time
	problem      string
	logs         []note
	count        int // commands, if repetitions belong to it

	open       bool // commands can still be added
	unanswered int
	keys       []*typedKey
	checking   bool // the focus is being checked
	capturing  bool
	postponed  bool // its capture waits for the one in progress
	captured   bool // it has had its snapshot, or a mark instead
	capturedAt time.Time
	before     string
	after      string
	frames     []object // lines of its latest snapshot
	isWritten  bool
}

// note is a line in the log of an action.
type note struct {
	time time.Time
	text string
}

func (a *action) log(text string) { a.logs = append(a.logs, note{time.Now(), text}) }

// finished reports whether the action is complete.
func (a *action) finished() bool {
	return !a.open && a.unanswered == 0 && !a.checking && !a.capturing && !a.postponed
}

// write writes a finished action, then its snapshot: the viewer of Playwright 1.63 and later knows a snapshot only by an action
// before it.
func (a *action) write(w *Writer) {
	if a.kind == key {
		a.describeKeys()
	}
	if a.count > 1 {
		a.title += " (" + strconv.Itoa(a.count) + " times)"
	}
	began := object{
		"type": "before", "callId": a.id, "stepId": a.id, "startTime": w.offset(a.began), "title": a.title, "class": a.class, "method": a.method, "params": a.params,
	}
	ended := object{"type": "after", "callId": a.id, "endTime": w.offset(a.ended)}
	for name, value := range map[string]string{"pageId": a.pageID(), "beforeSnapshot": a.before} {
		if value != "" {
			began[name] = value
		}
	}
	if a.after != "" {
		ended["afterSnapshot"] = a.after
	}
	if a.problem != "" {
		ended["error"] = object{"name": "Error", "message": a.problem}
	}
	w.line(began)
	if a.point != nil && a.before != "" {
		w.line(object{"type": "input", "callId": a.id, "inputSnapshot": a.before, "point": a.point})
	}
	if a.point != nil {
		ended["point"] = a.point
	}
	w.line(object{"type": "log", "callId": a.id, "time": w.offset(a.began), "message": "client: " + cut(a.client.Name, maxParam)})
	for _, n := range a.logs {
		w.line(object{"type": "log", "callId": a.id, "time": w.offset(n.time), "message": n.text})
	}
	w.line(ended)
	a.isWritten = true
	a.writeFrames(w)
}

func (a *action) writeFrames(w *Writer) {
	for _, line := range a.frames {
		w.line(line)
	}
	a.frames = nil
}

func (a *action) pageID() string { return pageID(a.page) }

// pageID returns the id of a page in the trace.
func pageID(target string) string {
	if target == "" {
		return ""
	}
	return "page@" + target
}
