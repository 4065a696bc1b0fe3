package trace

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp/tap"
)

// handle handles a record.
func (t *tracer) handle(ctx context.Context, r tap.Record) {
	t.queued.Add(-int64(len(r.Data)))
	m := readMessage(r.Data)
	switch r.Kind {
	case tap.Command:
		t.command(ctx, r, m)
	case tap.Answer:
		t.answer(ctx, r, m)
	case tap.Event:
		var p struct {
			SessionID  string
			TargetInfo struct{ TargetID, Type string }
		}
		if json.Unmarshal(m.Params, &p) == nil && p.TargetInfo.Type == "page" {
			t.addSession(r.Client, p.SessionID, p.TargetInfo.TargetID)
		}
	}
}

// addSession notes the target of a session of a client.
func (t *tracer) addSession(client *tap.Client, session, target string) {
	if len(t.sessions[client]) > maxSessions || len(t.sessions) > maxSessions {
		clear(t.sessions)
	}
	if t.sessions[client] == nil {
		t.sessions[client] = map[string]string{}
	}
	t.sessions[client][session] = target
}

// target returns the page that a command is for.
func (t *tracer) target(client *tap.Client, session string) string {
	found := cmp.Or(client.TargetID, t.sessions[client][""])
	if session != "" {
		if found = t.sessions[client][session]; found == "" {
			found = t.current // the client was attached before the trace began
		}
	}
	if found == "" && len(t.pages) > 0 && t.pages[t.current] != nil && client.TargetID == "" {
		found = t.current
	}
	if t.pages[found] != nil {
		t.current = found
	}
	return found
}

// command adds a command of a client to the trace.
func (t *tracer) command(ctx context.Context, r tap.Record, m message) {
	s := stepOf(m)
	if s.kind == ignored {
		return
	}
	target := t.target(r.Client, m.SessionID)
	t.addDialog(m, target)
	if s.handle != "" {
		t.addSession(r.Client, "", s.handle)
	}
	if s.element != "" {
		if s.params["element"] = t.elements[s.element]; s.params["element"] == "" {
			s.params["element"] = "an element"
		}
	}
	if found := t.pages[target]; s.kind == evaluation && found != nil && found.worlds[s.world] {
		s.kind = internal // clients have worlds of their own
	}
	if s.kind == internal {
		if a := t.latest; a != nil && a.kind == key && a.client == r.Client {
			t.close(ctx, false) // the client goes on with something else
		}
		t.internal++
		if head, _ := s.params["head"].(string); len(t.notes) < 5 && head != "" {
			t.notes = append(t.notes, "evaluated by the client itself: "+head)
		}
		return
	}
	a := t.join(s, r.Client, target, r.At)
	if a == nil {
		t.close(ctx, s.changes)
		if s.kind == release {
			return // its beginning was not recorded
		}
		a = t.newAction(s, r.Client, target, r.At)
		t.moveNotes(a)
		a.open = s.kind == press || s.kind == key && !s.alone || s.kind == scroll || s.kind == evaluation
		t.latest = a
	}
	a.ended = time.Time{}
	call := callKey{r.Client, m.ID}
	if m.ID != 0 {
		a.unanswered++
		t.waiting[call] = a
	}
	if s.kind == key {
		a.keys = append(a.keys, &typedKey{call: call, text: s.text, special: s.special, sent: r.At})
		t.w.hide(a.id, a.hidden(true, false))
	}
	if found := t.pages[target]; found != nil && s.changes {
		found.changed, found.changedAt = a, r.At
		a.captured = false
		if t.busy != nil && t.busy.action != a && t.busy.action.page == target {
			t.busy.cancel() // it would show what this command does
		}
	}
	if m.ID == 0 { // a message that is too long
		a.ended = r.At
	}
}

// join returns the action that a command belongs to; nil for a new one.
func (t *tracer) join(s step, client *tap.Client, target string, began time.Time) *action {
	a := t.latest
	if a == nil || !a.open || a.client != client || a.page != target {
		return nil
	}
	switch {
	case s.kind == release && a.kind == press:
		a.open = false
		t.latest = nil
	case s.kind == key && a.kind == key:
	case s.kind == scroll && a.kind == scroll:
		a.count++
	case s.kind == evaluation && a.kind == evaluation && s.params["expression"] == a.params["expression"] && began.Sub(a.began) < time.Minute:
		a.count++
	default:
		return nil
	}
	return a
}

// newAction adds an action.
func (t *tracer) newAction(s step, client *tap.Client, target string, began time.Time) *action {
	if len(t.actions) == maxOpen { // their answers do not come
		first := t.actions[0]
		first.log("the answer is not in the trace")
		maps.DeleteFunc(t.waiting, func(_ callKey, waiting *action) bool { return waiting == first })
		first.ended, first.open, first.unanswered, first.checking, first.capturing, first.postponed = began, false, 0, false, false, false
		t.finish()
	}
	t.calls++
	a := &action{step: s, id: fmt.Sprintf("call@%d", t.calls), page: target, client: client, began: began, count: 1}
	if found := t.pages[target]; found != nil {
		a.before = found.snapshot
	}
	t.actions = append(t.actions, a)
	return a
}

// moveNotes moves what the client did by itself to the log of an action.
func (t *tracer) moveNotes(a *action) {
	for _, text := range t.notes {
		a.log(text)
	}
	if more := t.internal - len(t.notes); more > 0 {
		a.log(fmt.Sprintf("evaluated by the client itself: %d more", more))
	}
	t.notes, t.internal = nil, 0
}

// close ends the latest action: no more commands belong to it. moved says that the next command can change the page.
func (t *tracer) close(ctx context.Context, moved bool) {
	a := t.latest
	t.latest = nil
	if a == nil {
		return
	}
	a.open = false
	if moved && a.changes && !a.captured && !a.capturing && a.unanswered == 0 {
		t.drop(a, movedOn)
	}
	t.proceed(ctx, a)
}

// answer adds the answer to a command.
func (t *tracer) answer(ctx context.Context, r tap.Record, m message) {
	call := callKey{r.Client, m.ID}
	a := t.waiting[call]
	if a == nil {
		return
	}
	for _, k := range a.keys {
		if k.call == call && k.answered.IsZero() {
			k.answered = r.At
		}
	}
	delete(t.waiting, call)
	a.unanswered = max(a.unanswered-1, 0)
	a.ended = r.At
	if problem := problemOf(m); problem != "" {
		a.problem = cut(problem, maxParam)
	}
	if a.finds {
		t.foundElements(a, m.Result)
	}
	t.proceed(ctx, a)
}

// problemOf returns why a command has failed; "" if it has not.
func problemOf(m message) string {
	if m.Error != nil {
		return m.Error.Message
	}
	var result struct {
		ErrorText        string
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	_ = json.Unmarshal(m.Result, &result) // a longer one is of a command that has succeeded
	if e := result.ExceptionDetails; e != nil {
		if e.Exception.Description != "" {
			return e.Exception.Description
		}
		return e.Text
	}
	return result.ErrorText
}

// proceed continues with an action: it checks the focus, captures the page, and writes the action.
func (t *tracer) proceed(ctx context.Context, a *action) {
	if a.kind == key && a.unjudged() && !a.checking {
		t.checkFocus(ctx, a)
	}
	t.captureDue(ctx, a)
	t.finish()
}

// captureDue captures the page after an action, if it is time for it. What is typed is shown only after the focus was checked.
func (t *tracer) captureDue(ctx context.Context, a *action) {
	latest := a.capturedAt
	if found := t.pages[a.page]; found != nil && a.kind == evaluation { // clients may evaluate often
		latest = found.captured
	}
	due := !a.open || a.kind != press && time.Since(latest) > repeatInterval
	if a.unanswered == 0 && a.changes && !a.captured && !a.capturing && !a.postponed && !a.checking && due {
		t.capture(ctx, a)
	}
}

// finish writes the actions that are complete.
func (t *tracer) finish() {
	t.actions = slices.DeleteFunc(t.actions, func(a *action) bool {
		if !a.finished() {
			return false
		}
		if a.ended.IsZero() {
			a.ended = time.Now()
		}
		t.w.hideTyped(a)
		a.write(t.w)
		return true
	})
}

// checkFocus finds out whether keys were for fields without secrets.
func (t *tracer) checkFocus(ctx context.Context, a *action) {
	found := t.pages[a.page]
	if found == nil || ctx.Err() != nil {
		return // the keys stay masked
	}
	a.checking = true
	s := found.pageSession
	final := !a.open
	t.work.Go(func() {
		log, err := s.checkFocus(ctx)
		t.apply(ctx, func() {
			a.checking = false
			if err == nil {
				a.judge(log)
				t.w.hide(a.id, a.hidden(true, false))
			}
			if !final && a.unjudged() && err == nil {
				t.proceed(ctx, a)
				return
			}
			t.captureDue(ctx, a)
			t.finish()
		})
	})
}

// idle ends what is not continued.
func (t *tracer) idle(ctx context.Context, now time.Time) {
	t.reportLost()
	if a := t.latest; a != nil && a.unanswered == 0 && !a.ended.IsZero() && now.Sub(a.ended) > idleAfter {
		t.close(ctx, false)
	}
}
