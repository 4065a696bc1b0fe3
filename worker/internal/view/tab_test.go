package view_test

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/cdp"
)

// tab is a page of a person's own browser.
type tab struct {
	t        *testing.T
	conn     *cdp.Conn
	session  string
	messages *cdp.Subscription
}

func openTab(t *testing.T, b *browser.Browser, address string) *tab {
	t.Helper()
	p := &tab{t: t, conn: b.CDP()}
	var target struct{ TargetID string }
	p.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	p.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	p.session = attached.SessionID
	p.messages = p.conn.Subscribe(1000, "Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
	p.call("Log.enable", nil, nil)
	p.call("Runtime.enable", nil, nil)
	p.navigate(address)
	return p
}

func (p *tab) call(method string, params, result any) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
	defer cancel()
	if err := p.conn.Call(ctx, p.session, method, params, result); err != nil {
		p.t.Fatal(err)
	}
}

func (p *tab) navigate(address string) {
	p.t.Helper()
	p.call("Page.navigate", map[string]any{"url": address}, nil)
}

// eval returns an expression's value as text.
func (p *tab) eval(expression string) string {
	p.t.Helper()
	var answer struct {
		Result struct{ Value any }
	}
	p.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true}, &answer)
	return fmt.Sprint(answer.Result.Value)
}

func (p *tab) shows(what, expression, want string) {
	p.t.Helper()
	var got string
	defer func() {
		if p.t.Failed() {
			p.t.Logf("%s = %q, want %q; said: %s", expression, got, want, p.said())
		}
	}()
	eventually(p.t, what, func() bool { got = p.eval(expression); return got == want })
}

// said is everything that the page wrote to its console.
func (p *tab) said() string {
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

// shot is a picture of the tab as PNG.
func (p *tab) shot() []byte {
	p.t.Helper()
	var shot struct{ Data []byte }
	p.call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	return shot.Data
}

// color is that of a spot of the tab, as red, green and blue.
func (p *tab) color(x, y int) [3]uint8 {
	p.t.Helper()
	picture, err := png.Decode(bytes.NewReader(p.shot()))
	if err != nil {
		p.t.Fatal(err)
	}
	r, g, b, _ := picture.At(x, y).RGBA()
	return [3]uint8{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8)}
}

// looks keeps pictures of the tab with the test's artifacts: in light and dark,
// on a desktop and on a phone.
func (p *tab) looks(name string) {
	p.t.Helper()
	for _, size := range [][2]int{{1280, 800}, {390, 780}} {
		p.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 500}, nil)
		for _, scheme := range []string{"light", "dark"} {
			p.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
			p.eval("new Promise(done => requestAnimationFrame(() => setTimeout(done, 300)))")
			file := filepath.Join(p.t.ArtifactDir(), fmt.Sprintf("%s-%s-%d.png", name, scheme, size[0]))
			if err := os.WriteFile(file, p.shot(), 0o644); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	p.call("Emulation.clearDeviceMetricsOverride", nil, nil)
	p.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": "light"}}}, nil)
}

// click is a person's, with the pointer.
func (p *tab) click(x, y int) {
	p.t.Helper()
	for _, kind := range []string{"mouseMoved", "mousePressed", "mouseReleased"} {
		params := map[string]any{"type": kind, "x": x, "y": y, "clickCount": 1, "button": "left"}
		if kind == "mouseMoved" {
			params["button"] = "none"
		}
		p.call("Input.dispatchMouseEvent", params, nil)
	}
}

// key is one that a person presses and lets go of.
func (p *tab) key(key, code string, keyCode int) {
	p.t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		params := map[string]any{"type": kind, "key": key, "code": code, "windowsVirtualKeyCode": keyCode}
		if kind == "keyDown" && len(key) == 1 {
			params["text"] = key
		}
		p.call("Input.dispatchKeyEvent", params, nil)
	}
}

// chord is a key with Ctrl.
func (p *tab) chord(key string, keyCode int) {
	p.t.Helper()
	for _, e := range []struct {
		kind, key, code string
		keyCode, bits   int
	}{
		{"rawKeyDown", "Control", "ControlLeft", 17, 2}, {"rawKeyDown", key, "Key" + strings.ToUpper(key), keyCode, 2},
		{"keyUp", key, "Key" + strings.ToUpper(key), keyCode, 2}, {"keyUp", "Control", "ControlLeft", 17, 0},
	} {
		p.call("Input.dispatchKeyEvent", map[string]any{"type": e.kind, "key": e.key, "code": e.code, "windowsVirtualKeyCode": e.keyCode, "modifiers": e.bits}, nil)
	}
}
