package view_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/api/view"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
	"github.com/browser-svc/svc/worker/internal/cdp/handover"
	"github.com/browser-svc/svc/worker/internal/cdp/intercept"
)

const (
	banner      = "document.getElementById('handover')"
	bannerShown = banner + ".checkVisibility() + ' ' + " + banner + ".querySelectorAll('button').length"
)

// TestViewPage_AsksForPerson checks the banner of a handover in a page with control, and
// in one with a view ticket.
func TestViewPage_AsksForPerson(t *testing.T) {
	s := newFixture(t, true, "")
	h := s.watched.Calls().Handovers()
	begin := func(reason string) *handover.Handover {
		t.Helper()
		opened, err := h.Begin(handover.Request{Reason: reason, Timeout: 90 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return opened
	}
	watcher := openTab(t, s.viewerBrowser, s.path("/view?t="+s.token(t, ticket.View)))
	watcher.WaitFor("watching", state, "Live, watching")
	p := openTab(t, s.viewerBrowser, s.path("/view?ct="+s.token(t, ticket.Control)))
	p.WaitFor("in control", state, "Live, in control")
	p.WaitFor("no banner", bannerShown, "false 1")

	reason := `<b id="injected">مرحبا</b> ` + strings.Repeat("LongWord", 55)
	opened := begin(reason)
	watcher.WaitFor("a banner without a button", bannerShown, "true 0")
	watcher.Call("Page.bringToFront", nil, nil)
	watcher.saveScreenshots("handover-watch")
	p.Call("Page.bringToFront", nil, nil)
	p.WaitFor("a banner", bannerShown, "true 1")
	p.WaitFor("the reason", "document.getElementById('handover-reason').textContent === "+quoted(t, reason)+" && !document.getElementById('injected')", "true")
	p.WaitFor("the time left", "document.getElementById('handover-left').textContent", "Time left: 1 h 30 min")
	p.saveScreenshots("handover")
	p.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 360, "height": 780, "deviceScaleFactor": 1, "mobile": true}, nil)
	p.WaitFor("no horizontal scrolling", "document.documentElement.scrollWidth <= innerWidth && "+banner+".scrollWidth <= innerWidth", "true")
	p.Call("Emulation.clearDeviceMetricsOverride", nil, nil)
	if n := s.cutConns(); n != 2 {
		t.Errorf("got %d open streams", n)
	}
	p.WaitFor("live again", state, "Live, in control")
	p.WaitFor("a banner", bannerShown, "true 1")

	p.Eval("document.getElementById('details').focus()")
	p.key("Tab", "Tab", 9)
	p.WaitFor("the button has the focus", "document.activeElement.id", "handover-done")
	p.key(" ", "Space", 32)
	testenv.Eventually(t, "the end of the handover", func() bool { return h.Open() == nil })
	if result, _ := opened.Result(); result.Outcome != handover.Done {
		t.Errorf("got %+v", result)
	}
	p.WaitFor("no banner", bannerShown, "false 1")
	watcher.WaitFor("no banner", bannerShown, "false 0")

	begin("Second.").Cancel()
	third := begin("Third.")
	p.WaitFor("the third reason", "document.getElementById('handover-reason').textContent", "Third.")
	third.Cancel()
	p.WaitFor("no banner", bannerShown, "false 1")
	p.saidNothing()
	begin("Last.")
	p.WaitFor("a banner", bannerShown, "true 1")
	if err := s.watched.Kill(context.Background()); err != nil {
		t.Fatal(err)
	}
	p.WaitFor("ended", state, "Ended")
	p.WaitFor("no banner", bannerShown, "false 1")
}

const (
	question      = "document.getElementById('question')"
	questionShown = question + ".checkVisibility() + ' ' + " + question + ".querySelectorAll('button:enabled').length"
)

// TestViewPage_AnswersQuestions checks the banner of a document that waits, in a page with control, and in one with a view ticket.
func TestViewPage_AnswersQuestions(t *testing.T) {
	s := newFixture(t, true, "")
	h := s.watched.Calls().Handovers()
	ask := func(frame, address string) *handover.Question {
		t.Helper()
		q, err := h.Ask(frame, address, "the rule navigate.ask: a.test of the launch", 10*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	watcher := openTab(t, s.viewerBrowser, s.path("/view?t="+s.token(t, ticket.View)))
	p := openTab(t, s.viewerBrowser, s.path("/view?ct="+s.token(t, ticket.Control)))
	p.WaitFor("in control", state, "Live, in control")
	p.WaitFor("no banner", question+".checkVisibility()", "false")

	text := "https://a.test/?<b>" + strings.Repeat("LongWord", 100)
	first, second := ask("1", text), ask("2", "https://a.test/2")
	watcher.WaitFor("a banner without buttons", questionShown, "true 0")
	p.Call("Page.bringToFront", nil, nil)
	p.WaitFor("three buttons", questionShown, "true 3")
	p.WaitFor("the URL as text", "document.getElementById('question-url').textContent === "+quoted(t, first.URL)+" && !"+question+".querySelector('b')", "true")
	p.WaitFor("the rule", "document.getElementById('question-rule').textContent", "https://a.test · the rule navigate.ask: a.test of the launch · 1 more")
	p.WaitFor("the time left", "document.getElementById('question-left').textContent", "Refused in 10 min")
	p.saveScreenshots("question")
	p.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 360, "height": 780, "deviceScaleFactor": 1, "mobile": true}, nil)
	p.WaitFor("no horizontal scrolling", "document.documentElement.scrollWidth <= innerWidth && "+question+".scrollWidth <= innerWidth", "true")
	p.Call("Emulation.clearDeviceMetricsOverride", nil, nil)
	p.Eval(question + ".querySelector('[value=refuse]').click()")
	ended := func(q *handover.Question) bool {
		select {
		case <-q.Ended():
			return true
		default:
			return false
		}
	}
	testenv.Eventually(t, "the refusal", func() bool { return ended(first) })
	if first.Allowed() {
		t.Error("the refused document is allowed")
	}
	p.WaitFor("the next one", "document.getElementById('question-url').textContent", second.URL)
	p.WaitFor("three buttons", questionShown, "true 3")
	second.Withdraw()
	p.WaitFor("no banner", question+".checkVisibility()", "false")
	for value, address := range map[string]string{"once": "https://b.test/", "session": "https://c.test/"} {
		q := ask("1", address)
		p.WaitFor("its URL", "document.getElementById('question-url').textContent", address)
		p.WaitFor("three buttons", questionShown, "true 3")
		p.Eval(question + ".querySelector('[value=" + value + "]').click()")
		testenv.Eventually(t, "the permission of "+address, q.Allowed)
	}
	if q := ask("1", "https://c.test/other"); !q.Allowed() {
		t.Error("not allowed for the session")
	}
	p.saidNothing()
}

func quoted(t *testing.T, text string) string {
	t.Helper()
	raw, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestStream_SendsEventsIfAsked checks that only a stream that asks for text messages
// gets them.
func TestStream_SendsEventsIfAsked(t *testing.T) {
	calls := intercept.New(intercept.Options{})
	s := newTestServer(t, "", view.Options{Streamer: &idleStreamer{}}, access.Browser{Calls: calls})
	read := func(conn *ws.Conn, limit time.Duration) string {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		kind, text, err := conn.Read(ctx)
		if err != nil {
			return err.Error()
		}
		return map[bool]string{false: "binary "}[kind == ws.Text] + string(text)
	}
	asking, err := s.dial(t, "events=true&t="+s.token(t, ticket.View))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := s.dial(t, "t="+s.token(t, ticket.View))
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"events=1", "events=", "events=true&events=false"} {
		if _, err := s.dial(t, query+"&t="+s.token(t, ticket.View)); err == nil || !strings.Contains(err.Error(), "400") {
			t.Errorf("%s: %v", query, err)
		}
	}
	if got := read(asking, 10*time.Second); got != `{"handover":null,"questions":[],"expiry":null}` {
		t.Errorf("got %s", got)
	}
	opened, err := calls.Handovers().Begin(handover.Request{Reason: "Look.", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if got := read(asking, 10*time.Second); !strings.Contains(got, `"reason":"Look."`) || !strings.Contains(got, `"secondsLeft":`) {
		t.Errorf("got %s", got)
	}
	opened.Cancel()
	if got := read(asking, 10*time.Second); got != `{"handover":null,"questions":[],"expiry":null}` {
		t.Errorf("got %s", got)
	}
	if _, err := calls.Handovers().Ask("frame", "https://a.test/", "the rule", time.Minute); err != nil {
		t.Fatal(err)
	}
	if got := read(asking, 10*time.Second); !strings.Contains(got, `"url":"https://a.test/","origin":"https://a.test","rule":"the rule","secondsLeft":`) {
		t.Errorf("got %s", got)
	}
	if !s.browser.Activity.Used() {
		t.Error("viewers without control do not use the browser")
	}
	if got := read(plain, 100*time.Millisecond); strings.Contains(got, "{") {
		t.Errorf("a stream that did not ask got %s", got)
	}
}
