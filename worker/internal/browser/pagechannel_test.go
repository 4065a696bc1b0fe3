package browser_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/worker/internal/cdp/handover"
	"github.com/browser-svc/svc/worker/internal/data/files"
)

// exposedPage is a page that has the protocol.
type exposedPage struct {
	w        *wall
	targetID string
	session  string
	last     int // id of a call
}

// expose gives a new page the protocol.
func (w *wall) expose(t *testing.T) *exposedPage {
	t.Helper()
	p := &exposedPage{w: w, session: w.page(t)}
	var page struct{ TargetInfo targetInfo }
	unmarshal(t, w.call(t, p.session, "Target.getTargetInfo", nil), &page)
	p.targetID = page.TargetInfo.TargetID
	w.call(t, "", "Target.exposeDevToolsProtocol", map[string]any{"targetId": p.targetID, "bindingName": "protocol"})
	p.listen(t)
	return p
}

// listen makes the document keep the answers.
func (p *exposedPage) listen(t *testing.T) {
	t.Helper()
	p.w.eval(t, p.session, `globalThis.answers = []; protocol.onmessage = text => { const m = JSON.parse(text); if (m.id) answers.push(m) }`, nil)
}

// pageAnswer is an answer that a page has received.
type pageAnswer struct {
	ID     int
	Error  struct{ Message string }
	Result json.RawMessage
}

// send makes a call in the page and returns its id.
func (p *exposedPage) send(t *testing.T, method string, params any) (id int) {
	t.Helper()
	p.last++
	raw, err := json.Marshal(map[string]any{"id": p.last, "method": method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	p.w.eval(t, p.session, "protocol.send("+quoted(string(raw))+")", nil)
	return p.last
}

// await waits for the answer with this id and returns all answers.
func (p *exposedPage) await(t *testing.T, id int) (answers []pageAnswer) {
	t.Helper()
	eventually(t, 10*time.Second, "the answer in the page", func() bool {
		p.w.eval(t, p.session, "answers", &answers)
		return slices.ContainsFunc(answers, func(a pageAnswer) bool { return a.ID == id })
	})
	return answers
}

// do makes a call in the page and returns its error.
func (p *exposedPage) do(t *testing.T, method string, params any) (problem string) {
	t.Helper()
	id := p.send(t, method, params)
	answers := p.await(t, id)
	return answers[len(answers)-1].Error.Message
}

// TestExposedProtocol_HoldsLaterCalls: chromedriver does not wait for the answer.
func TestExposedProtocol_HoldsLaterCalls(t *testing.T) {
	w := newWall(t, nil, nil)
	for range 5 {
		session := w.page(t)
		var page struct{ TargetInfo targetInfo }
		unmarshal(t, w.call(t, session, "Target.getTargetInfo", nil), &page)
		if _, err := w.Send(t.Context(), "", "Target.exposeDevToolsProtocol", map[string]any{"targetId": page.TargetInfo.TargetID, "bindingName": "protocol"}); err != nil {
			t.Fatal(err)
		}
		var kind string
		w.eval(t, session, "typeof window.protocol?.send", &kind)
		if kind != "function" {
			t.Fatalf("a later call finds %s, want function", kind)
		}
	}
}

// TestExposedProtocol_InterceptsCalls makes calls in a page that has the protocol.
func TestExposedProtocol_InterceptsCalls(t *testing.T) {
	w := newWall(t, &netrules.Rules{Navigate: &netrules.Filter{Allow: []string{allowedHosts}}, Uploads: "deny"}, nil)
	p := w.expose(t)
	check := func(when string) {
		t.Helper()
		for _, c := range []struct {
			method  string
			params  map[string]any
			problem string // part of the error
		}{
			{"Browser.getVersion", nil, ""},
			{"Extensions.loadUnpacked", map[string]any{"path": "/tmp"}, "Extensions are loaded at the launch only"},
			{"Target.createTarget", map[string]any{"url": "data:text/html,x"}, "is denied by the rule navigate.allow of the launch"},
			{"DOM.setFileInputFiles", map[string]any{"files": []string{"/etc/passwd"}, "backendNodeId": 1}, "the rule uploads of the launch"},
			{"Target.exposeDevToolsProtocol", map[string]any{"targetId": p.targetID}, "The page has the protocol already."},
			{"Target.exposeDevToolsProtocol", map[string]any{"targetId": "none"}, "No target with given id found"},
			{"Target.createBrowserContext", map[string]any{"proxyServer": "bad://x"}, "The proxyServer cannot be used"},
			{"Browser.setDownloadBehavior", map[string]any{"behavior": "allow", "downloadPath": "/tmp"}, ""},
		} {
			if problem := p.do(t, c.method, c.params); c.problem == "" && problem != "" || !strings.Contains(problem, c.problem) {
				t.Errorf("%s: %s: %q, want %q", when, c.method, problem, c.problem)
			}
		}
	}
	check("in the first document")
	w.run(t, p.session, `const a = document.createElement("a"); a.href = URL.createObjectURL(new Blob(["x"])); a.download = "kept.txt"; a.click()`)
	awaitFile(t, w.Browser, "kept.txt", files.Complete)

	w.navigate(t, p.session, w.url("other.allowed", "/")) // of another process
	p.listen(t)
	check("in a later document")
	var frameType string
	w.eval(t, p.session, `new Promise(done => { const f = document.createElement("iframe"); f.src = "/frame"; f.onload = () => done(typeof f.contentWindow.protocol); document.body.append(f) })`, &frameType)
	if frameType == "object" {
		t.Error("a frame has the protocol")
	}
}

// TestExposedProtocol_WaitsForHandover makes calls in a page during a handover. The browser
// would answer them in order.
func TestExposedProtocol_WaitsForHandover(t *testing.T) {
	w := newWall(t, nil, nil)
	p := w.expose(t)
	handovers := w.Calls().Handovers()
	session := attachPastRelay(t, w, p.targetID)
	eval := func(expression string, out any) {
		var answer struct {
			Result struct{ Value json.RawMessage }
		}
		if err := w.CDP().Call(t.Context(), session, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &answer); err != nil {
			t.Fatal(err)
		}
		if out != nil {
			unmarshal(t, answer.Result.Value, out)
		}
	}
	if _, err := handovers.Begin(handover.Request{Reason: "Look.", Timeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	eval(`protocol.send('{"id":1,"method":"Target.createTarget","params":{"url":"about:blank#held"}}'); protocol.send('{"id":2,"method":"Svc.none"}')`, nil)
	var answers []pageAnswer
	eventually(t, 10*time.Second, "the answer that is not held", func() bool {
		eval("answers", &answers)
		return len(answers) > 0
	})
	if len(answers) != 1 || answers[0].ID != 2 {
		t.Errorf("during the handover, the page got %+v", answers)
	}
	if _, err := handovers.Finish(""); err != nil {
		t.Fatal(err)
	}
	answers = p.await(t, 1)
	if last := answers[len(answers)-1]; last.ID != 1 || last.Error.Message != "" {
		t.Errorf("after the handover, the page got %+v", answers)
	}
}

// attachPastRelay attaches the worker's own connection to a page.
func attachPastRelay(t *testing.T, w *wall, targetID string) (session string) {
	t.Helper()
	var attached struct{ SessionID string }
	if err := w.CDP().Call(t.Context(), "", "Target.attachToTarget", map[string]any{"targetId": targetID, "flatten": true}, &attached); err != nil {
		t.Fatal(err)
	}
	return attached.SessionID
}
