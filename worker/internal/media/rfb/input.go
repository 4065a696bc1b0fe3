package rfb

import (
	"context"
	"image"
	"sync"
	"time"

	"github.com/browser-svc/svc/worker/internal/media/keys"
)

const (
	inputQueueSize = 256             // input that waits while a page is busy; more is dropped
	inputTimeout   = 2 * time.Second // for a page to take one input

	doubleClick     = 500 * time.Millisecond
	doubleClickArea = 4   // CSS pixels either way
	wheelStep       = 100 // CSS pixels
)

// target is the page that receives input, and the geometry of the client's
// picture of it.
type target struct {
	tab         *tab
	metrics     metrics
	framebuffer image.Point // the size of the framebuffer
}

// inputDispatcher converts a viewer's keys, pointer and clipboard to CDP input
// events.
type inputDispatcher struct {
	queue    chan any
	sendText func(string) // to the client's clipboard

	mu     sync.Mutex
	target *target

	// Used only by run.
	buttons   uint8
	x, y      float64
	clicks    int
	clickedAt time.Time
	clickedX  float64
	clickedY  float64
	keys      keyboard
	clipboard string // text copied by the client, until the page copies text
}

func newInputDispatcher(sendText func(string)) *inputDispatcher {
	return &inputDispatcher{queue: make(chan any, inputQueueSize), sendText: sendText, keys: keyboard{keysyms: make(map[uint32]bool)}}
}

// setTarget sets the page that receives input; nil for none.
func (h *inputDispatcher) setTarget(t *target) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.target = t
}

func (h *inputDispatcher) currentTarget() *target {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.target
}

// enqueue queues a message without blocking. It drops the message if the queue
// is full.
func (h *inputDispatcher) enqueue(message any) {
	select {
	case h.queue <- message:
	default:
	}
}

// run dispatches messages in order until ctx ends. Of queued pointer moves it
// dispatches only the last.
func (h *inputDispatcher) run(ctx context.Context) {
	for {
		select {
		case m := <-h.queue:
			h.dispatch(ctx, h.coalesceMoves(ctx, m))
		case <-ctx.Done():
			return
		}
	}
}

func (h *inputDispatcher) coalesceMoves(ctx context.Context, m any) any {
	for {
		move, ok := m.(pointerMessage)
		if !ok || move.buttons != h.buttons {
			return m
		}
		select {
		case next := <-h.queue:
			if p, ok := next.(pointerMessage); !ok || p.buttons != h.buttons {
				h.dispatch(ctx, m)
			}
			m = next
		default:
			return m
		}
	}
}

func (h *inputDispatcher) dispatch(ctx context.Context, message any) {
	switch m := message.(type) {
	case pointerMessage:
		h.dispatchPointer(ctx, m)
	case keyMessage:
		h.dispatchKey(ctx, m)
	case clipboardMessage:
		h.clipboard = m.text
	}
}

// call sends an input command. If the page does not answer in time, the queued
// input is dropped.
func (h *inputDispatcher) call(ctx context.Context, method string, params any) {
	t := h.currentTarget()
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, inputTimeout)
	defer cancel()
	if t.tab.conn.Call(ctx, "", method, params, nil) != nil && ctx.Err() != nil {
		for len(h.queue) > 0 {
			<-h.queue
		}
	}
}

// mouseInput contains the parameters of Input.dispatchMouseEvent.
type mouseInput struct {
	Type       string  `json:"type"`
	X          float64 `json:"x"`
	Y          float64 `json:"y"`
	Button     string  `json:"button,omitempty"`
	Buttons    int     `json:"buttons"`
	ClickCount int     `json:"clickCount,omitempty"`
	DeltaX     float64 `json:"deltaX"`
	DeltaY     float64 `json:"deltaY"`
	Modifiers  int     `json:"modifiers,omitempty"`
}

// mouseButtons are the three buttons with RFB's bit and the name and bit in CDP.
var mouseButtons = [...]struct {
	mask uint8
	name string
	cdp  int
}{
	{mask: 1, name: "left", cdp: 1},
	{mask: 2, name: "middle", cdp: 4},
	{mask: 4, name: "right", cdp: 2},
}

// wheelButtons are the buttons that represent the wheel: up, down, left, right.
var wheelButtons = [...]struct {
	mask   uint8
	dx, dy float64
}{
	{1 << 3, 0, -wheelStep},
	{1 << 4, 0, wheelStep},
	{1 << 5, -wheelStep, 0},
	{1 << 6, wheelStep, 0},
}

func (h *inputDispatcher) dispatchPointer(ctx context.Context, m pointerMessage) {
	t := h.currentTarget()
	if t == nil || t.metrics.DeviceWidth <= 0 || t.metrics.DeviceHeight <= 0 {
		h.buttons = m.buttons
		return
	}
	x := float64(m.x) * t.metrics.DeviceWidth / float64(t.framebuffer.X)
	y := float64(m.y)*t.metrics.DeviceHeight/float64(t.framebuffer.Y) - t.metrics.OffsetTop
	changed, was := m.buttons^h.buttons, h.buttons
	if x != h.x || y != h.y || changed == 0 {
		h.x, h.y = x, y
		h.dispatchMouse(ctx, mouseInput{Type: "mouseMoved", Buttons: buttonMask(was), Button: firstButton(was)})
	}
	h.buttons = m.buttons
	for _, b := range mouseButtons {
		if changed&b.mask == 0 {
			continue
		}
		kind := "mouseReleased"
		if m.buttons&b.mask != 0 {
			kind = "mousePressed"
			h.countClick()
		}
		h.dispatchMouse(ctx, mouseInput{Type: kind, Button: b.name, Buttons: buttonMask(m.buttons), ClickCount: h.clicks})
	}
	for _, w := range wheelButtons {
		if changed&m.buttons&w.mask != 0 {
			h.dispatchMouse(ctx, mouseInput{Type: "mouseWheel", DeltaX: w.dx, DeltaY: w.dy, Buttons: buttonMask(m.buttons)})
		}
	}
}

func (h *inputDispatcher) dispatchMouse(ctx context.Context, input mouseInput) {
	input.X, input.Y, input.Modifiers = h.x, h.y, h.keys.modifiers()
	h.call(ctx, "Input.dispatchMouseEvent", input)
}

// countClick distinguishes single, double and triple clicks.
func (h *inputDispatcher) countClick() {
	now := time.Now()
	near := max(h.x-h.clickedX, h.clickedX-h.x, h.y-h.clickedY, h.clickedY-h.y) <= doubleClickArea
	if near && now.Sub(h.clickedAt) < doubleClick && h.clicks < 3 {
		h.clicks++
	} else {
		h.clicks = 1
	}
	h.clickedAt, h.clickedX, h.clickedY = now, h.x, h.y
}

func buttonMask(mask uint8) int {
	buttons := 0
	for _, b := range mouseButtons {
		if mask&b.mask != 0 {
			buttons |= b.cdp
		}
	}
	return buttons
}

func firstButton(mask uint8) string {
	for _, b := range mouseButtons {
		if mask&b.mask != 0 {
			return b.name
		}
	}
	return "none"
}

// dispatchKey sends a key event, or inserts the client's clipboard.
func (h *inputDispatcher) dispatchKey(ctx context.Context, m keyMessage) {
	input := h.keys.keyInput(m)
	if m.down && input.Modifiers == keys.Control {
		switch input.Code {
		case "KeyC", "KeyX", "Insert":
			h.clipboard = ""
			h.copyText(ctx, input)
			return
		case "KeyV":
			if h.clipboard != "" {
				h.call(ctx, "Input.insertText", map[string]any{"text": h.clipboard})
				return
			}
		}
	}
	h.call(ctx, "Input.dispatchKeyEvent", input)
}
