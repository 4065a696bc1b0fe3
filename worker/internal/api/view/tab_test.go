package view_test

import (
	"bytes"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/testing/browsertest"
)

// tab is a page in the browser of a viewer.
type tab struct {
	*browsertest.Tab
	t *testing.T
}

func openTab(t *testing.T, b *browser.Browser, address string) *tab {
	t.Helper()
	return &tab{browsertest.OpenTab(t, b, address), t}
}

// color returns the red, green and blue values of a point of the tab.
func (p *tab) color(x, y int) [3]uint8 {
	p.t.Helper()
	picture, err := png.Decode(bytes.NewReader(p.Screenshot()))
	if err != nil {
		p.t.Fatal(err)
	}
	r, g, b, _ := picture.At(x, y).RGBA()
	return [3]uint8{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8)}
}

// saveScreenshots saves screenshots of the tab with the test's artifacts: light and
// dark, desktop and phone.
func (p *tab) saveScreenshots(name string) {
	p.t.Helper()
	for _, size := range [][2]int{{1280, 800}, {390, 780}} {
		p.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 500}, nil)
		for _, scheme := range []string{"light", "dark"} {
			p.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
			p.Eval("new Promise(done => requestAnimationFrame(() => setTimeout(done, 300)))")
			file := filepath.Join(p.t.ArtifactDir(), fmt.Sprintf("%s-%s-%d.png", name, scheme, size[0]))
			if err := os.WriteFile(file, p.Screenshot(), 0o644); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	p.Call("Emulation.clearDeviceMetricsOverride", nil, nil)
	p.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": "light"}}}, nil)
}

// click clicks with the pointer.
func (p *tab) click(x, y int) {
	p.t.Helper()
	for _, kind := range []string{"mouseMoved", "mousePressed", "mouseReleased"} {
		params := map[string]any{"type": kind, "x": x, "y": y, "clickCount": 1, "button": "left"}
		if kind == "mouseMoved" {
			params["button"] = "none"
		}
		p.Call("Input.dispatchMouseEvent", params, nil)
	}
}

// tap taps with a finger.
func (p *tab) tap(x, y int) {
	p.t.Helper()
	p.Call("Input.dispatchTouchEvent", map[string]any{"type": "touchStart", "touchPoints": []map[string]int{{"x": x, "y": y}}}, nil)
	p.Call("Input.dispatchTouchEvent", map[string]any{"type": "touchEnd", "touchPoints": []any{}}, nil)
}

// key presses and releases a key.
func (p *tab) key(key, code string, keyCode int) {
	p.t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		params := map[string]any{"type": kind, "key": key, "code": code, "windowsVirtualKeyCode": keyCode}
		if kind == "keyDown" && len(key) == 1 {
			params["text"] = key
		}
		p.Call("Input.dispatchKeyEvent", params, nil)
	}
}

// ctrlKey presses and releases a key with Ctrl.
func (p *tab) ctrlKey(key string, keyCode int) {
	p.t.Helper()
	for _, e := range []struct {
		kind, key, code string
		keyCode, bits   int
	}{
		{"rawKeyDown", "Control", "ControlLeft", 17, 2}, {"rawKeyDown", key, "Key" + strings.ToUpper(key), keyCode, 2},
		{"keyUp", key, "Key" + strings.ToUpper(key), keyCode, 2}, {"keyUp", "Control", "ControlLeft", 17, 0},
	} {
		p.Call("Input.dispatchKeyEvent", map[string]any{"type": e.kind, "key": e.key, "code": e.code, "windowsVirtualKeyCode": e.keyCode, "modifiers": e.bits}, nil)
	}
}
