package browsertest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/cdp"
)

// callTimeout limits one call to a page.
const callTimeout = 20 * time.Second

// Tab is a page of a browser. Errors fail the test.
type Tab struct {
	t        testing.TB
	conn     *cdp.Conn
	session  string
	messages *cdp.Subscription
}

// OpenTab opens a page at a URL and collects its console output.
func OpenTab(t testing.TB, b *browser.Browser, address string) *Tab {
	t.Helper()
	var target struct{ TargetID string }
	(&Tab{t: t, conn: b.CDP()}).Call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	p := useTab(t, b, target.TargetID)
	p.Navigate(address)
	return p
}

// FirstTab is OpenTab for the tab with which the browser has started.
func FirstTab(t testing.TB, b *browser.Browser, address string) *Tab {
	t.Helper()
	var listed struct {
		TargetInfos []struct{ TargetID, Type string }
	}
	(&Tab{t: t, conn: b.CDP()}).Call("Target.getTargets", nil, &listed)
	for _, target := range listed.TargetInfos {
		if target.Type == "page" {
			p := useTab(t, b, target.TargetID)
			p.Navigate(address)
			return p
		}
	}
	t.Fatal("the browser has no tab")
	return nil
}

func useTab(t testing.TB, b *browser.Browser, target string) *Tab {
	t.Helper()
	p := &Tab{t: t, conn: b.CDP()}
	var attached struct{ SessionID string }
	p.Call("Target.attachToTarget", map[string]any{"targetId": target, "flatten": true}, &attached)
	p.session = attached.SessionID
	p.messages = p.conn.Subscribe(1000, "Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
	p.Call("Log.enable", nil, nil)
	p.Call("Runtime.enable", nil, nil)
	return p
}

// Call makes a CDP call to the page and decodes the reply into result unless
// that is nil.
func (p *Tab) Call(method string, params, result any) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), callTimeout)
	defer cancel()
	if err := p.conn.Call(ctx, p.session, method, params, result); err != nil {
		p.t.Fatal(err)
	}
}

// Navigate goes to a URL and does not wait for it to load.
func (p *Tab) Navigate(address string) {
	p.t.Helper()
	p.Call("Page.navigate", map[string]any{"url": address}, nil)
}

// Eval evaluates an expression as a user gesture and returns its value as text.
func (p *Tab) Eval(expression string) string {
	p.t.Helper()
	var answer struct {
		Result struct{ Value any }
	}
	p.Call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true}, &answer)
	return fmt.Sprint(answer.Result.Value)
}

// WaitFor waits until an expression has a value.
func (p *Tab) WaitFor(what, expression, want string) {
	p.t.Helper()
	var got string
	defer func() {
		if p.t.Failed() {
			p.t.Logf("%s = %q, want %q; console: %s", expression, got, want, p.ConsoleOutput())
		}
	}()
	testenv.Eventually(p.t, what, func() bool { got = p.Eval(expression); return got == want })
}

// ConsoleOutput returns everything that the page wrote to its console since the
// last call.
func (p *Tab) ConsoleOutput() string {
	var b strings.Builder
	for {
		select {
		case e := <-p.messages.Events():
			if e.SessionID == p.session {
				fmt.Fprintf(&b, "%s %s\n", e.Method, e.Params)
			}
		default:
			return b.String()
		}
	}
}

// Screenshot returns a screenshot of the page as PNG.
func (p *Tab) Screenshot() []byte {
	p.t.Helper()
	var shot struct{ Data []byte }
	p.Call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	return shot.Data
}
