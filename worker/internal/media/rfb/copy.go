package rfb

import (
	"context"
	"errors"
	"fmt"

	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/media/keys"
)

// copyWorld is the name of an isolated world, of which the scripts of a page see nothing.
const copyWorld = "svc-copy"

// maxFrameDepth limits the frames that the focus is followed into.
const maxFrameDepth = 32

// copyScript returns the element of the frame that has the focus. Without one, it records
// what the next copy or cut in this frame puts into the clipboard. Chromium does not offer
// the clipboard itself: pages may read it only with a permission, which the page would see.
//
// The listeners that record are added to all nodes on the path of the event when it begins,
// after those of the page, which can replace the text and stop the event at any node.
const copyScript = `(() => {
	const focused = () => {
		let element = document.activeElement;
		while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
		return element;
	};
	if (/^i?frame$/.test(focused()?.localName)) return focused();
	const selected = () => focused()?.type === 'password' ? '' : getSelection().toString();
	const listening = new AbortController(), {signal} = listening;
	let event, prevented, text = '';
	const record = (e) => {
		[event, prevented] = [e, e.defaultPrevented];
		text = prevented ? e.clipboardData.getData('text/plain') : selected();
	};
	const follow = (e) => {
		if (e.isTrusted) for (const node of e.composedPath()) node.addEventListener(e.type, record, {signal});
	};
	for (const type of ['copy', 'cut']) addEventListener(type, follow, {capture: true, signal});
	globalThis.copied = (limit) => {
		listening.abort();
		if (!event || event.defaultPrevented !== prevented) return ''; // the last text is not known
		if (event.type === 'cut' && !prevented && selected() === text) return ''; // nothing was cut
		return text.length > limit ? '' : text;
	};
})()`

// copyWatch records what a key copies in the focused frame of a page.
type copyWatch struct {
	tab       *tab
	conn      *cdp.Conn // of the frame: the tab's, or its own
	contextID int
}

// copyText dispatches a key that copies. It sends what the key has copied to the client,
// unless that is larger than the limit, which the display of a headful browser has too.
func (h *inputDispatcher) copyText(ctx context.Context, input keys.Input) {
	const method = "Input.dispatchKeyEvent"
	t := h.currentTarget()
	if t == nil {
		return
	}
	within, cancel := context.WithTimeout(ctx, inputTimeout)
	defer cancel()
	w := &copyWatch{tab: t.tab, conn: t.tab.conn}
	defer w.close()
	err := w.start(within)
	h.call(ctx, method, input)
	if err != nil {
		return // the page is busy or has ended
	}
	var text string
	if w.evaluate(within, fmt.Sprintf("copied(%d)", maxClipboard), &text, nil) == nil && text != "" && len(text) <= maxClipboard {
		h.sendText(text)
	}
}

// start starts to record in the frame that has the focus.
func (w *copyWatch) start(ctx context.Context) error {
	frame := w.tab.id
	for range maxFrameDepth {
		if err := w.enter(ctx, frame); err != nil {
			return err
		}
		var element string
		if err := w.evaluate(ctx, copyScript, nil, &element); err != nil || element == "" {
			return err
		}
		var owner struct{ Node struct{ FrameID string } }
		if err := w.conn.Call(ctx, "", "DOM.describeNode", map[string]any{"objectId": element}, &owner); err != nil {
			return err
		}
		frame = owner.Node.FrameID
	}
	return errors.New("copy: too many nested frames")
}

// enter goes on in a frame, over a connection of its own if the frame has its own process.
func (w *copyWatch) enter(ctx context.Context, frame string) error {
	err := w.createWorld(ctx, frame)
	if _, refused := errors.AsType[*cdp.Error](err); !refused || !pageID().MatchString(frame) {
		return err
	}
	conn, err := w.tab.browser.connect(ctx, frame)
	if err != nil {
		return err
	}
	w.close()
	w.conn = conn
	return w.createWorld(ctx, frame)
}

func (w *copyWatch) createWorld(ctx context.Context, frame string) error {
	var world struct{ ExecutionContextID int }
	err := w.conn.Call(ctx, "", "Page.createIsolatedWorld", map[string]any{"frameId": frame, "worldName": copyWorld}, &world)
	w.contextID = world.ExecutionContextID
	return err
}

// evaluate returns the value of an expression if that is a string, and the id of an object.
func (w *copyWatch) evaluate(ctx context.Context, expression string, value, objectID *string) error {
	var answer struct {
		Result struct {
			Value    any
			ObjectID string
		}
	}
	err := w.conn.Call(ctx, "", "Runtime.evaluate", map[string]any{"expression": expression, "contextId": w.contextID, "silent": true}, &answer)
	if value != nil {
		*value, _ = answer.Result.Value.(string)
	}
	if objectID != nil {
		*objectID = answer.Result.ObjectID
	}
	return err
}

// close closes the connection of the frame, if it has its own.
func (w *copyWatch) close() {
	if w.conn != w.tab.conn {
		_ = w.conn.Close()
	}
}
