package browser_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/cdp/handover"
)

// askingRules ask about the hosts below ask.allowed.localhost.
var askingRules = &netrules.Rules{Navigate: &netrules.Filter{Allow: []string{allowedHosts}, Ask: []string{"*.ask.allowed.localhost"}}}

// begin begins a navigation, whose error text arrives later.
func (w *wall) begin(t *testing.T, session, address string) (errorText <-chan string) {
	t.Helper()
	reply, err := w.Send(t.Context(), session, "Page.navigate", map[string]any{"url": address})
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan string, 1)
	go func() {
		var answer struct{ ErrorText string }
		if err := reply.Wait(t.Context(), &answer); err != nil {
			answer.ErrorText = err.Error()
		}
		answered <- answer.ErrorText
	}()
	return answered
}

// questions waits for this number of open questions.
func (w *wall) questions(t *testing.T, n int) []*handover.Question {
	t.Helper()
	h := w.Calls().Handovers()
	testenv.Eventually(t, fmt.Sprintf("%d questions", n), func() bool { return len(h.Questions()) == n })
	return h.Questions()
}

func (w *wall) answer(t *testing.T, q *handover.Question, d handover.Decision) {
	t.Helper()
	if _, err := w.Calls().Handovers().Answer(q.ID, d); err != nil {
		t.Fatal(err)
	}
}

func within(t *testing.T, answer <-chan string) string {
	t.Helper()
	select {
	case text := <-answer:
		return text
	case <-time.After(20 * time.Second):
		t.Fatal("the navigation is not answered")
		return ""
	}
}

func TestGuard_AsksPerson(t *testing.T) {
	w := newWall(t, askingRules, nil)
	session := w.page(t)
	a, b := w.url("a.ask.allowed", "/a"), w.url("b.ask.allowed", "/b")

	answer := w.begin(t, session, a)
	q := w.questions(t, 1)[0]
	if q.URL != a || q.Origin != w.url("a.ask.allowed", "") || q.Rule != "the rule navigate.ask: *.ask.allowed.localhost of the launch" || q.Until.Sub(q.Since) != handover.DefaultTimeout {
		t.Errorf("the question is %+v", q)
	}
	select {
	case text := <-answer:
		t.Fatalf("answered before the person: %q", text)
	default:
	}
	w.answer(t, q, handover.Refuse)
	if text := within(t, answer); text != "net::ERR_BLOCKED_BY_CLIENT" {
		t.Errorf("refused: %q", text)
	}
	w.awaitText(t, session, "navigate.ask: *.ask.allowed.localhost of the launch")

	answer = w.begin(t, session, a)
	w.answer(t, w.questions(t, 1)[0], handover.AllowOnce)
	if text := within(t, answer); text != "" {
		t.Errorf("allowed once: %q", text)
	}
	w.awaitText(t, session, "the page")

	answer = w.begin(t, session, a)
	w.answer(t, w.questions(t, 1)[0], handover.AllowForSession)
	if text := within(t, answer); text != "" {
		t.Errorf("allowed for the session: %q", text)
	}
	if text := w.navigate(t, session, a+"/other"); text != "" {
		t.Errorf("after it was allowed for the session: %q", text)
	}
	answer = w.begin(t, session, b)
	w.answer(t, w.questions(t, 1)[0], handover.Refuse)
	if text := within(t, answer); text != "net::ERR_BLOCKED_BY_CLIENT" {
		t.Errorf("another origin: %q", text)
	}
}

// TestGuard_AsksTwice answers the later one of two questions first, which concern documents in two ways.
func TestGuard_AsksTwice(t *testing.T) {
	w := newWall(t, askingRules, nil)
	redirected := w.begin(t, w.page(t), w.url("www.allowed", "/redirect?to="+w.url("a.ask.allowed", "/")))
	first := w.questions(t, 1)[0]
	w.run(t, w.page(t), "open("+quoted(w.url("b.ask.allowed", "/"))+")")
	second := w.questions(t, 2)[1]
	if first.Origin != w.url("a.ask.allowed", "") || second.Origin != w.url("b.ask.allowed", "") {
		t.Errorf("asked about %s and %s", first.Origin, second.Origin)
	}
	w.answer(t, second, handover.AllowOnce)
	eventually(t, 10*time.Second, "the popup", func() bool {
		for _, target := range w.targets(t) {
			if target.Type == "page" && strings.HasPrefix(target.URL, second.Origin) {
				return strings.Contains(w.text(t, w.attach(t, target.TargetID)), "the page")
			}
		}
		return false
	})
	if n := len(w.questions(t, 1)); n != 1 {
		t.Errorf("%d questions are open", n)
	}
	w.answer(t, first, handover.Refuse)
	if text := within(t, redirected); text != "net::ERR_BLOCKED_BY_CLIENT" {
		t.Errorf("refused: %q", text)
	}
}

func TestGuard_WithdrawsQuestions(t *testing.T) {
	w := newWall(t, askingRules, nil)
	held := w.url("a.ask.allowed", "/")
	for name, leave := range map[string]func(t *testing.T, session, target string){
		"navigates away": func(t *testing.T, session, _ string) { w.begin(t, session, w.url("www.allowed", "/next")) },
		"closes": func(t *testing.T, _, target string) {
			w.call(t, "", "Target.closeTarget", map[string]any{"targetId": target})
		},
		"stops": func(t *testing.T, session, _ string) { w.call(t, session, "Page.stopLoading", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			session := w.page(t)
			var page struct{ TargetInfo targetInfo }
			unmarshal(t, w.call(t, session, "Target.getTargetInfo", nil), &page)
			w.begin(t, session, held)
			q := w.questions(t, 1)[0]
			leave(t, session, page.TargetInfo.TargetID)
			w.questions(t, 0)
			if q.Allowed() {
				t.Error("allowed")
			}
		})
	}
	session := w.page(t)
	w.run(t, session, "document.body.append(Object.assign(document.createElement('iframe'), {src: "+quoted(held)+"}))")
	w.questions(t, 1)
	w.run(t, session, "document.querySelector('iframe').remove()")
	w.questions(t, 0)
	w.begin(t, session, held+"first")
	first := w.questions(t, 1)[0]
	w.begin(t, session, held+"second")
	<-first.Ended()
	if q := w.questions(t, 1)[0]; !strings.HasSuffix(q.URL, "second") {
		t.Errorf("asked about %s", q.URL)
	}
}

func TestGuard_RefusesUnansweredAtEnd(t *testing.T) {
	w := newWall(t, askingRules, nil)
	w.begin(t, w.page(t), w.url("a.ask.allowed", "/"))
	q := w.questions(t, 1)[0]
	if err := w.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-q.Ended()
	if q.Allowed() {
		t.Error("allowed")
	}
	w.questions(t, 0)
}

// TestGuard_LimitsQuestions opens more documents that must ask than questions can be open.
func TestGuard_LimitsQuestions(t *testing.T) {
	w := newWall(t, askingRules, nil)
	w.run(t, w.page(t), `for (let i = 0; i < 20; i++) document.body.append(Object.assign(document.createElement("iframe"), {src: `+quoted(w.url("a.ask.allowed", "/?"))+` + i}))`)
	for range 4 {
		w.awaitDenied(t, "a.ask.allowed")
	}
	open := w.questions(t, 16)
	w.answer(t, open[3], handover.AllowForSession)
	w.questions(t, 0)
	for _, q := range open {
		if !q.Allowed() {
			t.Error("a question of the same origin is not answered too")
		}
	}
}

// TestGuard_HoldsStartURLs asks about the first page of a browser.
func TestGuard_HoldsStartURLs(t *testing.T) {
	for name, set := range guardStarts {
		t.Run(name, func(t *testing.T) {
			w := newWall(t, nil, nil)
			if err := w.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.start(t, askingRules, func(s *browser.Spec) {
				set(t, s)
				s.StartURLs = []string{w.url("a.ask.allowed", "/start")}
			})
			w.answer(t, w.questions(t, 1)[0], handover.AllowOnce)
			eventually(t, 10*time.Second, "the page", func() bool {
				for _, target := range w.targets(t) {
					if target.Type == "page" && strings.HasSuffix(target.URL, "/start") {
						return strings.Contains(w.text(t, w.attach(t, target.TargetID)), "the page")
					}
				}
				return false
			})
		})
	}
}
