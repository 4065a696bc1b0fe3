package browser_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/cdp"
)

// text returns the text of the page; nothing while it changes.
func (w *wall) text(t *testing.T, session string) (text string) {
	t.Helper()
	var answer struct{ Result struct{ Value string } }
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := w.Call(ctx, session, "Runtime.evaluate", map[string]any{"expression": "document.title + '\\n' + document.documentElement.innerText"}, &answer)
	if _, changes := errors.AsType[*cdp.Error](err); err != nil && !changes {
		t.Fatal(err)
	}
	return answer.Result.Value
}

// awaitText waits for a text in the page.
func (w *wall) awaitText(t *testing.T, session, part string) {
	t.Helper()
	eventually(t, 10*time.Second, part, func() bool { return strings.Contains(w.text(t, session), part) })
}

func TestGuard_NamesRule(t *testing.T) {
	for name, set := range guardStarts {
		t.Run(name, func(t *testing.T) {
			w := newWall(t, &netrules.Rules{Navigate: &netrules.Filter{Deny: []string{"denied.localhost/a&lt;*", "*.denied.localhost"}}}, func(s *browser.Spec) { set(t, s) })
			session := w.page(t)
			w.call(t, session, "Network.enable", nil)
			failures := w.Subscribe(10, "Network.loadingFailed")
			defer failures.Close()
			if text := w.navigate(t, session, w.url("denied", "/a&lt;b")); text != "net::ERR_BLOCKED_BY_CLIENT" {
				t.Errorf("the error is %q", text)
			}
			select {
			case e := <-failures.Events():
				if !strings.Contains(string(e.Params), "net::ERR_BLOCKED_BY_CLIENT") {
					t.Errorf("the request fails with %s", e.Params)
				}
			case <-time.After(10 * time.Second):
				t.Error("the request does not fail")
			}
			w.awaitText(t, session, "navigate.deny: denied.localhost/a&lt;* of the launch")
			w.awaitText(t, session, "This page is blocked\n")
			w.navigate(t, session, w.url("www.allowed", "/redirect?to="+w.url("other.denied", "/")))
			w.awaitText(t, session, "navigate.deny: *.denied.localhost of the launch")
			w.awaitText(t, session, w.url("other.denied", "/"))
			w.navigate(t, session, w.url("www.allowed", "/after"))
			w.awaitText(t, session, "the page")
		})
	}
}

func TestGuard_NamesRuleInPopup(t *testing.T) {
	w := newWall(t, &netrules.Rules{Navigate: &netrules.Filter{Allow: []string{allowedHosts}}}, nil)
	w.run(t, w.page(t), "open("+quoted(w.url("denied", "/"))+")")
	eventually(t, 10*time.Second, "the popup names the rule", func() bool {
		for _, target := range w.targets(t) {
			if target.Type == "page" && target.OpenerID != "" {
				return strings.Contains(w.text(t, w.attach(t, target.TargetID)), "the rule navigate.allow of the launch")
			}
		}
		return false
	})
}

// TestGuard_WritesOnlyIntoErrorPages opens another document while the text is written.
func TestGuard_WritesOnlyIntoErrorPages(t *testing.T) {
	w := newWall(t, &netrules.Rules{Navigate: &netrules.Filter{Allow: []string{allowedHosts}}}, nil)
	session := w.page(t)
	for range 30 {
		reply, err := w.Send(t.Context(), session, "Page.navigate", map[string]any{"url": w.url("denied", "/")})
		if err != nil {
			t.Fatal(err)
		}
		if err := reply.Wait(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		w.navigate(t, session, w.url("www.allowed", "/after"))
		var raw json.RawMessage
		w.eval(t, session, `new Promise((done) => { if (document.readyState === "complete") done(); else addEventListener("load", () => done()) }).then(() => document.title + document.body.innerText)`, &raw)
		if string(raw) != `"/afterthe page"` {
			t.Fatalf("the page contains %s", raw)
		}
	}
}
