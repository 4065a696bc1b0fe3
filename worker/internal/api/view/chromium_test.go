package view_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

const (
	state     = "document.getElementById('state')?.textContent"
	pressable = "[...document.querySelectorAll('button, a')].filter(e => e.checkVisibility()).length"
)

// streamPoint returns the middle of the picture.
func (p *tab) streamPoint() (x, y int) {
	p.t.Helper()
	var position [2]int
	const where = `(() => { const r = document.querySelector('#screen canvas').getBoundingClientRect();
		return JSON.stringify([Math.round(r.x + r.width / 2), Math.round(r.y + r.height * .7)]) })()`
	if err := json.Unmarshal([]byte(p.Eval(where)), &position); err != nil {
		p.t.Fatal(err)
	}
	return position[0], position[1]
}

func (p *tab) showsGreen() {
	p.t.Helper()
	var got [3]uint8
	defer func() {
		if p.t.Failed() {
			p.t.Logf("the colour is %v", got)
		}
	}()
	testenv.Eventually(p.t, "the watched page's green", func() bool {
		x, y := p.streamPoint()
		got = p.color(x+30, y+30)
		return got[0] < 30 && got[1] > 180 && got[1] < 225 && got[2] < 30
	})
}

func (p *tab) saidNothing() {
	p.t.Helper()
	if output := p.ConsoleOutput(); output != "" {
		p.t.Errorf("the console contains:\n%s", output)
	}
}

func TestViewPage_ControlReachesBrowser(t *testing.T) {
	for name, headless := range map[string]bool{"headful": false, "headless": true} {
		t.Run(name, func(t *testing.T) {
			const prefix = "/w/7"
			s := newFixture(t, headless, prefix)
			p := openTab(t, s.viewerBrowser, s.url(prefix, "/view?ct="+s.token(t, ticket.Control)))
			p.WaitFor("in control", state, "Live, in control")
			if address := p.Eval("location.href"); address != s.url(prefix, "/view") {
				t.Errorf("got URL %s", address)
			}
			p.showsGreen()
			p.click(p.streamPoint())
			testenv.Eventually(t, "a click", func() bool { return strings.Contains(s.received(), "[click]") })
			for _, letter := range "ok" {
				p.key(string(letter), "Key"+strings.ToUpper(string(letter)), int(letter)-32)
			}
			testenv.Eventually(t, "typed text", func() bool { return strings.HasSuffix(s.received(), "ok") })

			p.Eval("document.getElementById('control').click()")
			p.WaitFor("released", state, "Live, control released")
			p.WaitFor("the hint for released control", "document.getElementById('hint').hidden + ' ' + document.getElementById('released').hidden", "true false")
			p.WaitFor("disabled panels", "document.querySelectorAll('.panel button:enabled').length", "0")
			p.click(p.streamPoint())
			p.key("n", "KeyN", 'N')
			p.Eval("document.getElementById('control').click()")
			p.WaitFor("in control again", state, "Live, in control")
			p.click(p.streamPoint())
			p.key("y", "KeyY", 'Y')
			testenv.Eventually(t, "typed text", func() bool { return strings.HasSuffix(s.received(), "y") })
			if got := s.received(); got != "[click]ok[click]y" {
				t.Errorf("the site received %q", got)
			}
			p.typesOnAPhone(s)
			p.sharesTheClipboard(s)
			p.leavesByKeyboard()
			p.saveScreenshots("view-" + name)
			p.saidNothing()
			p.comesBack(s)
			if err := s.watched.Kill(context.Background()); err != nil {
				t.Fatal(err)
			}
			p.WaitFor("ended", state, "Ended")
			p.WaitFor("the reason", "document.getElementById('message').textContent.startsWith('The browser has ended')", "true")
			p.WaitFor("no buttons", pressable, "0")
			p.saveScreenshots("view-ended-" + name)
		})
	}
}

// typesOnAPhone uses the panel of keys and the text field for phone keyboards.
func (p *tab) typesOnAPhone(s *fixture) {
	p.t.Helper()
	p.Eval("document.getElementById('keys-button').click(); document.getElementById('keyboard').click()")
	p.Call("Input.insertText", map[string]any{"text": "ab"}, nil)
	p.key("Backspace", "Backspace", 8)
	p.Eval("document.querySelector('[data-press=Escape]').click()")
	defer func() {
		if p.t.Failed() {
			p.t.Logf("the site received %q", s.received())
		}
	}()
	testenv.Eventually(p.t, "a phone's keys", func() bool { return strings.HasSuffix(s.received(), "yab[Backspace][Escape]") })
	p.Eval("document.getElementById('keys-button').click()")
}

// sharesTheClipboard uses the clipboard panel: to the browser and back.
func (p *tab) sharesTheClipboard(s *fixture) {
	p.t.Helper()
	p.Eval("document.getElementById('clipboard-button').click()")
	p.Eval("document.getElementById('clipboard-text').value = 'from here'; document.getElementById('clipboard-send').click()")
	p.click(p.streamPoint())
	p.ctrlKey("v", 'V')
	testenv.Eventually(p.t, "the pasted text", func() bool { return strings.Contains(s.received(), "[pasted]") })
	p.key("q", "KeyQ", 'Q')
	testenv.Eventually(p.t, "typed text", func() bool { return strings.HasSuffix(s.received(), "q") })
	p.ctrlKey("a", 'A')
	p.ctrlKey("c", 'C')
	p.WaitFor("the copied text", "document.getElementById('clipboard-text').value.endsWith('from hereq')", "true")
	p.Eval("document.getElementById('clipboard-text').focus()")
	p.key("Escape", "Escape", 27)
	p.WaitFor("the panel is closed", "document.getElementById('clipboard').hidden + ' ' + document.activeElement.id", "true clipboard-button")
}

// leavesByKeyboard checks that the keyboard focus can leave the picture.
func (p *tab) leavesByKeyboard() {
	p.t.Helper()
	const focused = "document.activeElement.id || document.activeElement.tagName"
	p.Eval("document.getElementById('details').focus()")
	p.key("Tab", "Tab", 9)
	p.WaitFor("a focus ring around the picture", focused+" + ' ' + getComputedStyle(document.activeElement).outlineStyle", "CANVAS solid")
	p.click(p.streamPoint())
	p.WaitFor("keys go to the picture", focused, "CANVAS")
	modifiers := 0
	keys := []struct {
		name, code string
		number     int
		bit        int
	}{{"Control", "ControlLeft", 17, 2}, {"Alt", "AltLeft", 18, 1}, {"Shift", "ShiftLeft", 16, 8}}
	for _, k := range keys {
		modifiers |= k.bit
		p.Call("Input.dispatchKeyEvent", map[string]any{"type": "rawKeyDown", "key": k.name, "code": k.code, "windowsVirtualKeyCode": k.number, "modifiers": modifiers}, nil)
	}
	for _, k := range keys {
		modifiers &^= k.bit
		p.Call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": k.name, "code": k.code, "windowsVirtualKeyCode": k.number, "modifiers": modifiers}, nil)
	}
	p.WaitFor("keys go to the page", focused, "control")
}

// comesBack cuts the connection and waits for the page to reconnect.
func (p *tab) comesBack(s *fixture) {
	p.t.Helper()
	p.Eval("window.states = []; new MutationObserver(() => states.push(document.body.dataset.state)).observe(document.body, {attributeFilter: ['data-state']})")
	if n := s.cutConns(); n != 1 {
		p.t.Errorf("got %d open streams", n)
	}
	p.WaitFor("reconnected", "states.join()", "reconnecting,live")
	p.showsGreen()
}

func TestViewPage_PansAndZoomsOnPhone(t *testing.T) {
	s := newFixture(t, false, "")
	p := openTab(t, s.viewerBrowser, "about:blank")
	p.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 390, "height": 780, "deviceScaleFactor": 1, "mobile": true}, nil)
	p.Call("Emulation.setTouchEmulationEnabled", map[string]any{"enabled": true}, nil)
	p.Call("Page.navigate", map[string]any{"url": s.path("/view?ct=" + s.token(t, ticket.Control))}, nil)
	p.WaitFor("in control", state, "Live, in control")
	const picture = "document.querySelector('#screen canvas').getBoundingClientRect()"
	p.WaitFor("a picture as high as the viewport", "Math.abs("+picture+".height - document.getElementById('viewport').clientHeight) < 2", "true")
	p.WaitFor("a wider picture", picture+".width > 2 * innerWidth", "true")
	x, y := 195, 500
	p.tap(x, y)
	testenv.Eventually(t, "a click", func() bool { return s.received() == "[click]" })

	p.Eval("document.getElementById('move').click()")
	p.Call("Input.synthesizeScrollGesture", map[string]any{"x": x, "y": y, "xDistance": -150, "gestureSourceType": "touch"}, nil)
	p.WaitFor("the picture moved", "document.getElementById('viewport').scrollLeft > 100", "true")
	p.Eval("window.before = " + picture + ".width")
	p.Call("Input.synthesizePinchGesture", map[string]any{"x": x, "y": y, "scaleFactor": 2, "gestureSourceType": "touch"}, nil)
	p.WaitFor("the picture grew", picture+".width > 1.3 * before", "true")
	p.Eval("for (let i = 0; i < 9; i++) document.getElementById('zoom-out').click()")
	p.WaitFor("the whole picture", picture+".width <= innerWidth", "true")
	p.Eval("document.getElementById('zoom-in').click()")
	p.WaitFor("a larger picture", picture+".width > innerWidth", "true")
	p.saveScreenshots("view-phone")
	if got := s.received(); got != "[click]" {
		t.Errorf("the site received %q", got)
	}
	p.saidNothing()
}

// A phone can report a fine pointer, and so does a narrow window.
func TestViewPage_FillsNarrowWindow(t *testing.T) {
	s := newFixture(t, false, "")
	p := openTab(t, s.viewerBrowser, "about:blank")
	p.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 390, "height": 780, "deviceScaleFactor": 1, "mobile": false}, nil)
	p.Call("Page.navigate", map[string]any{"url": s.path("/view?ct=" + s.token(t, ticket.Control))}, nil)
	p.WaitFor("in control", state, "Live, in control")
	p.WaitFor("a picture as high as the viewport", "Math.abs(document.querySelector('#screen canvas').clientHeight - document.getElementById('viewport').clientHeight) < 2", "true")
	p.WaitFor("the zoom buttons", "document.getElementById('zoom-out').hidden", "false")
	p.saveScreenshots("view-narrow")
	p.saidNothing()
}

func TestViewPage_TicketOnlyWatches(t *testing.T) {
	for name, headless := range map[string]bool{"headful": false, "headless": true} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, headless, "")
			p := openTab(t, s.viewerBrowser, s.path("/view?t="+s.token(t, ticket.View)))
			p.WaitFor("watching", state, "Live, watching")
			p.showsGreen()
			if got := p.Eval("document.querySelectorAll('header button:not([hidden]), .panel, a').length <= 1"); got != "true" {
				t.Error("the page has controls")
			}
			p.click(p.streamPoint())
			p.key("n", "KeyN", 'N')
			p.saveScreenshots("watch-" + name)

			driver := openTab(t, s.viewerBrowser, s.path("/view?ct="+s.token(t, ticket.Control)))
			driver.WaitFor("in control", state, "Live, in control")
			driver.showsGreen()
			driver.click(driver.streamPoint())
			testenv.Eventually(t, "a click", func() bool { return s.received() != "" })
			if got := s.received(); got != "[click]" {
				t.Errorf("the site received %q", got)
			}
			p.saidNothing()
		})
	}
}

// The worker is at 127.0.0.1, which for browsers is another site than localhost.
func TestViewPage_IsEmbeddedByAncestor(t *testing.T) {
	s := newFixture(t, true, "")
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>App</title><script>loads = 0</script><iframe onload="loads++" src="%s" width="1000" height="700"></iframe>`, s.path("/view?ct="+r.URL.Query().Get("ct")))
	}))
	t.Cleanup(app.Close)
	address := func(origin string) string { return origin + "/?ct=" + s.token(t, ticket.Control) }
	p := openTab(t, s.viewerBrowser, address(strings.Replace(app.URL, "127.0.0.1", "localhost", 1)))
	p.WaitFor("the live view after the page that follows a link of another site", "loads", "2") // input is lost while the frame navigates
	testenv.Eventually(t, "a click through the frame", func() bool {
		p.click(500, 400)
		return strings.Contains(s.received(), "[click]")
	})

	other := openTab(t, s.viewerBrowser, address(app.URL))
	other.WaitFor("the refusal of the frame", "document.querySelector('iframe').contentDocument === null", "true")
	testenv.Eventually(t, "the reason in the console", func() bool { return strings.Contains(other.ConsoleOutput(), "frame-ancestors") })
}

func TestInfoPage_ShowsBrowser(t *testing.T) {
	const prefix = "/w/7"
	s := newFixture(t, true, prefix)
	p := openTab(t, s.viewerBrowser, s.url(prefix, "/?ct="+s.token(t, ticket.Control)))
	p.WaitFor("one tab", "[...document.querySelectorAll('.tab h3')].map(h => h.textContent).join()", "Watched")
	p.WaitFor("its picture", "document.querySelector('.tab img').naturalWidth", "320")
	p.WaitFor("its DevTools", "document.querySelector('.tab a').href.includes('inspector.html')", "true")
	p.WaitFor("the URL, masked", "document.getElementById('cdp').textContent.endsWith('?ct=••••••••')", "true")
	p.Eval("document.getElementById('cdp-show').click()")
	p.WaitFor("the URL", "document.getElementById('cdp').textContent.endsWith('?ct=secret-token')", "true")
	p.Eval("document.getElementById('cdp-show').click()")
	p.Eval("document.querySelector('#open button').click()")
	p.WaitFor("two tabs", "document.querySelectorAll('.tab').length", "2")
	p.Eval("document.getElementById('share').click()")
	p.WaitFor("a link", "document.getElementById('shared-url').value.includes('/view?t=')", "true")
	p.saveScreenshots("page")
	p.Eval("[...document.querySelectorAll('.tab')].find(t => t.textContent.includes('about:blank')).querySelector('button').click()")
	p.WaitFor("one tab", "document.querySelectorAll('.tab').length", "1")

	p.Eval("document.getElementById('end').click()")
	p.WaitFor("the confirmation dialog", "document.getElementById('confirm').open", "true")
	p.saveScreenshots("page-confirm")
	p.Eval("document.querySelector('#confirm [value=no]').click()")
	p.WaitFor("the browser still runs", "document.getElementById('confirm').open + ' ' + document.body.dataset.state", "false live")
	p.saidNothing()
	p.Eval("document.getElementById('end').click(); document.querySelector('#confirm [value=yes]').click()")
	p.WaitFor("ended", state, "Ended")
	<-s.watched.Done()
	p.WaitFor("no buttons", pressable, "0")
	p.saveScreenshots("page-ended")
}
