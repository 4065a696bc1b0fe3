package browser_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/cdp/intercept"
	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

// client is a DevTools client of a customer, connected over the WebSocket.
type client struct{ *cdp.Conn }

// socketPipe adapts a WebSocket to the interface of the control pipes.
type socketPipe struct {
	ctx    context.Context
	ws     *ws.Conn
	unread []byte
	calls  *intercept.Connection // nil: the worker does not intercept calls
}

func (p *socketPipe) Read(buf []byte) (int, error) {
	if len(p.unread) == 0 {
		_, msg, err := p.ws.Read(p.ctx)
		if err != nil {
			return 0, err
		}
		if p.calls != nil {
			p.calls.HandleAnswer(wsframe.Message{Opcode: wsframe.Text, Raw: wsframe.FromServer(wsframe.Text, msg)})
		}
		p.unread = append(msg, 0)
	}
	n := copy(buf, p.unread)
	p.unread = p.unread[n:]
	return n, nil
}

func (p *socketPipe) Write(frame []byte) (int, error) {
	message := bytes.TrimSuffix(frame, []byte{0})
	if p.calls != nil {
		forward, _ := p.calls.HandleMessage(wsframe.Message{Opcode: wsframe.Text, Raw: wsframe.FromClient(wsframe.Text, message)})
		message = wsframe.Message{Opcode: wsframe.Text, Raw: forward}.Payload()
	}
	return len(frame), p.ws.Write(p.ctx, ws.Text, message)
}

func (p *socketPipe) Close() error { return p.ws.CloseNow() }

// dial connects to the browser itself.
func dial(t *testing.T, b *browser.Browser) client { return connect(t, b, nil) }

// dialWorker connects as clients of the worker do, which intercepts some calls.
func dialWorker(t *testing.T, b *browser.Browser) client {
	calls := b.Calls().Connect()
	t.Cleanup(calls.Close)
	return connect(t, b, calls)
}

func connect(t *testing.T, b *browser.Browser, calls *intercept.Connection) client {
	t.Helper()
	conn, err := ws.Dial(t.Context(), fmt.Sprintf("ws://127.0.0.1:%d%s", b.DebugPort, b.WebSocketPath), nil, ws.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	pipe := &socketPipe{ctx: ctx, ws: conn, calls: calls}
	c := client{cdp.New(pipe, pipe)}
	t.Cleanup(func() {
		cancel()
		c.Close()
	})
	return c
}

func (c client) call(t *testing.T, session, method string, params any) json.RawMessage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var out json.RawMessage
	if err := c.Call(ctx, session, method, params, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// open opens a page and attaches to it.
func (c client) open(t *testing.T, url string) (session string) {
	t.Helper()
	var target struct{ TargetID string }
	unmarshal(t, c.call(t, "", "Target.createTarget", map[string]any{"url": url}), &target)
	return c.attach(t, target.TargetID)
}

func (c client) attach(t *testing.T, targetID string) (session string) {
	t.Helper()
	var attached struct{ SessionID string }
	unmarshal(t, c.call(t, "", "Target.attachToTarget", map[string]any{"targetId": targetID, "flatten": true}), &attached)
	return attached.SessionID
}

// eval evaluates an expression, awaits promises, and decodes the result.
func (c client) eval(t *testing.T, session, expression string, out any) {
	t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	unmarshal(t, c.call(t, session, "Runtime.evaluate", map[string]any{
		"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true,
	}), &answer)
	if answer.ExceptionDetails != nil {
		t.Fatalf("%s: %s", expression, answer.ExceptionDetails)
	}
	if out != nil {
		unmarshal(t, answer.Result.Value, out)
	}
}

type targetInfo struct {
	TargetID, Type, URL, OpenerID string
	Attached                      bool
}

func (c client) targets(t *testing.T) []targetInfo {
	t.Helper()
	var list struct{ TargetInfos []targetInfo }
	unmarshal(t, c.call(t, "", "Target.getTargets", nil), &list)
	return list.TargetInfos
}

func unmarshal(t *testing.T, raw json.RawMessage, out any) {
	t.Helper()
	if err := json.Unmarshal(raw, out); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
}
