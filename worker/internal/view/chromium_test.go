package view_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/browser-svc/svc/worker/internal/ticket"
)

const state = "document.getElementById('state')?.textContent"

// spot is the middle of the picture.
func (p *tab) spot() (x, y int) {
	p.t.Helper()
	var at [2]int
	const where = `(() => { const r = document.querySelector('#screen canvas').getBoundingClientRect();
		return JSON.stringify([Math.round(r.x + r.width / 2), Math.round(r.y + r.height * .7)]) })()`
	if err := json.Unmarshal([]byte(p.eval(where)), &at); err != nil {
		p.t.Fatal(err)
	}
	return at[0], at[1]
}

func (p *tab) showsGreen() {
	p.t.Helper()
	var got [3]uint8
	defer func() {
		if p.t.Failed() {
			p.t.Logf("the colour is %v", got)
		}
	}()
	eventually(p.t, "the watched page's green", func() bool {
		x, y := p.spot()
		got = p.color(x+30, y+30)
		return got[0] < 30 && got[1] > 180 && got[1] < 225 && got[2] < 30
	})
}

func (p *tab) saidNothing() {
	p.t.Helper()
	if said := p.said(); said != "" {
		p.t.Errorf("the console says:\n%s", said)
	}
}

func TestControlReachesTheBrowser(t *testing.T) {
	for name, headless := range map[string]bool{"headful": false, "headless": true} {
		t.Run(name, func(t *testing.T) {
			const prefix = "/w/7"
			s := newScene(t, headless, prefix)
			p := openTab(t, s.person, s.url(prefix, "/view?ct="+s.token(t, ticket.Control)))
			p.shows("in control", state, "Live, in control")
			if address := p.eval("location.href"); address != s.url(prefix, "/view") {
				t.Errorf("at %s", address)
			}
			p.showsGreen()
			p.click(p.spot())
			eventually(t, "a click", func() bool { return strings.Contains(s.came(), "[click]") })
			for _, letter := range "ok" {
				p.key(string(letter), "Key"+strings.ToUpper(string(letter)), int(letter)-32)
			}
			eventually(t, "typed text", func() bool { return strings.HasSuffix(s.came(), "ok") })

			p.eval("document.getElementById('control').click()")
			p.shows("released", state, "Live, control released")
			p.click(p.spot())
			p.key("n", "KeyN", 'N')
			p.eval("document.getElementById('control').click()")
			p.shows("in control again", state, "Live, in control")
			p.click(p.spot())
			p.key("y", "KeyY", 'Y')
			eventually(t, "typed text", func() bool { return strings.HasSuffix(s.came(), "y") })
			if got := s.came(); got != "[click]ok[click]y" {
				t.Errorf("what came is %q", got)
			}
			p.typesOnAPhone(s)
			p.sharesTheClipboard(s, headless)
			p.leavesByKeyboard()
			p.looks("view-" + name)
			p.saidNothing()
			p.comesBack(s)
			if err := s.watched.Kill(context.Background()); err != nil {
				t.Fatal(err)
			}
			p.shows("ended", state, "Ended")
			p.shows("why", "document.getElementById('message').textContent.startsWith('The browser has ended')", "true")
			p.looks("view-ended-" + name)
		})
	}
}

// typesOnAPhone uses the panel of keys, and the field that phones type into.
func (p *tab) typesOnAPhone(s *scene) {
	p.t.Helper()
	p.eval("document.getElementById('keys-button').click(); document.getElementById('keyboard').click()")
	p.call("Input.insertText", map[string]any{"text": "ab"}, nil)
	p.key("Backspace", "Backspace", 8)
	p.eval("document.querySelector('[data-press=Escape]').click()")
	defer func() {
		if p.t.Failed() {
			p.t.Logf("what came is %q", s.came())
		}
	}()
	eventually(p.t, "a phone's keys", func() bool { return strings.HasSuffix(s.came(), "yab[Backspace][Escape]") })
	p.eval("document.getElementById('keys-button').click()")
}

// sharesTheClipboard uses the panel, there and, of a display, back.
func (p *tab) sharesTheClipboard(s *scene, headless bool) {
	p.t.Helper()
	p.eval("document.getElementById('clipboard-button').click()")
	p.eval("document.getElementById('clipboard-text').value = 'from here'; document.getElementById('clipboard-send').click()")
	p.click(p.spot())
	p.chord("v", 'V')
	eventually(p.t, "what was pasted", func() bool { return strings.Contains(s.came(), "[pasted]") })
	p.key("q", "KeyQ", 'Q')
	eventually(p.t, "typed text", func() bool { return strings.HasSuffix(s.came(), "q") })
	if !headless {
		p.chord("a", 'A')
		p.chord("c", 'C')
		p.shows("what was copied", "document.getElementById('clipboard-text').value.endsWith('from hereq')", "true")
	}
	p.eval("document.getElementById('clipboard-button').click()")
}

// leavesByKeyboard checks that the picture is no trap.
func (p *tab) leavesByKeyboard() {
	p.t.Helper()
	const focused = "document.activeElement.id || document.activeElement.tagName"
	p.click(p.spot())
	p.shows("keys go to the picture", focused, "CANVAS")
	modifiers := 0
	keys := []struct {
		name, code string
		number     int
		bit        int
	}{{"Control", "ControlLeft", 17, 2}, {"Alt", "AltLeft", 18, 1}, {"Shift", "ShiftLeft", 16, 8}}
	for _, k := range keys {
		modifiers |= k.bit
		p.call("Input.dispatchKeyEvent", map[string]any{"type": "rawKeyDown", "key": k.name, "code": k.code, "windowsVirtualKeyCode": k.number, "modifiers": modifiers}, nil)
	}
	for _, k := range keys {
		modifiers &^= k.bit
		p.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": k.name, "code": k.code, "windowsVirtualKeyCode": k.number, "modifiers": modifiers}, nil)
	}
	p.shows("keys stay here", focused, "control")
}

// comesBack cuts the connection.
func (p *tab) comesBack(s *scene) {
	p.t.Helper()
	p.eval("window.states = []; new MutationObserver(() => states.push(document.body.dataset.state)).observe(document.body, {attributeFilter: ['data-state']})")
	if n := s.cut(); n != 1 {
		p.t.Errorf("%d streams were open", n)
	}
	p.shows("reconnected", "states.join()", "reconnecting,live")
	p.showsGreen()
}

func TestATicketOnlyWatches(t *testing.T) {
	for name, headless := range map[string]bool{"headful": false, "headless": true} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, headless, "")
			p := openTab(t, s.person, s.path("/view?t="+s.token(t, ticket.View)))
			p.shows("watching", state, "Live, watching")
			p.showsGreen()
			if got := p.eval("document.querySelectorAll('header button:not([hidden]), .panel, a').length <= 1"); got != "true" {
				t.Error("there is something to control")
			}
			p.click(p.spot())
			p.key("n", "KeyN", 'N')
			p.looks("watch-" + name)

			driver := openTab(t, s.person, s.path("/view?ct="+s.token(t, ticket.Control)))
			driver.shows("in control", state, "Live, in control")
			driver.showsGreen()
			driver.click(driver.spot())
			eventually(t, "a click", func() bool { return s.came() != "" })
			if got := s.came(); got != "[click]" {
				t.Errorf("what came is %q", got)
			}
			p.saidNothing()
		})
	}
}

func TestThePageOfABrowser(t *testing.T) {
	const prefix = "/w/7"
	s := newScene(t, true, prefix)
	p := openTab(t, s.person, s.url(prefix, "/?ct="+s.token(t, ticket.Control)))
	p.shows("one tab", "[...document.querySelectorAll('.tab h3')].map(h => h.textContent).join()", "Watched")
	p.shows("its picture", "document.querySelector('.tab img').naturalWidth", "320")
	p.shows("its DevTools", "document.querySelector('.tab a').href.includes('inspector.html')", "true")
	p.shows("the address, masked", "document.getElementById('cdp').textContent.endsWith('?ct=••••••••')", "true")
	p.eval("document.getElementById('cdp-show').click()")
	p.shows("the address", "document.getElementById('cdp').textContent.endsWith('?ct=secret-token')", "true")
	p.eval("document.getElementById('cdp-show').click()")
	p.eval("document.querySelector('#open button').click()")
	p.shows("two tabs", "document.querySelectorAll('.tab').length", "2")
	p.eval("document.getElementById('share').click()")
	p.shows("a link", "document.getElementById('shared-url').value.includes('/view?t=')", "true")
	p.looks("page")
	p.eval("[...document.querySelectorAll('.tab')].find(t => t.textContent.includes('about:blank')).querySelector('button').click()")
	p.shows("one tab", "document.querySelectorAll('.tab').length", "1")

	p.eval("document.getElementById('end').click()")
	p.shows("a question", "document.getElementById('confirm').open", "true")
	p.looks("page-confirm")
	p.eval("document.querySelector('#confirm [value=no]').click()")
	p.shows("it still runs", "document.getElementById('confirm').open + ' ' + document.body.dataset.state", "false live")
	p.saidNothing()
	p.eval("document.getElementById('end').click(); document.querySelector('#confirm [value=yes]').click()")
	p.shows("ended", state, "Ended")
	<-s.watched.Done()
	p.shows("nothing left to press", "[...document.querySelectorAll('button, a')].filter(e => e.checkVisibility()).length", "0")
	p.looks("page-ended")
}
