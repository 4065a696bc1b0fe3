package storagestate

import (
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp"
)

//go:embed storage.js
var storageScript string

type object = map[string]any

const (
	requestQueue = 256
	closeTimeout = 2 * time.Second
	tabTimeout   = 3 * time.Second // to read an open tab, which may be busy

	// blankDocument names an icon, so that the browser does not request one.
	blankDocument = `<!doctype html><link rel="icon" href="data:,">`
)

// blankPage is a tab whose requests are answered with an empty document, without the
// network: it opens documents of any origin.
type blankPage struct {
	conn     *cdp.Conn
	target   string
	session  string
	requests *cdp.Subscription
	work     sync.WaitGroup
}

// openBlankPage opens the tab in the background. The caller must call close.
func openBlankPage(ctx context.Context, conn *cdp.Conn) (_ *blankPage, err error) {
	p := &blankPage{conn: conn, requests: conn.Subscribe(requestQueue, "Fetch.requestPaused")}
	p.work.Go(p.answer)
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	var created struct{ TargetID string }
	if err := conn.Call(ctx, "", "Target.createTarget", object{"url": "about:blank", "background": true}, &created); err != nil {
		return nil, err
	}
	p.target = created.TargetID
	if p.session, err = attach(ctx, conn, p.target); err != nil {
		return nil, err
	}
	for _, call := range []struct {
		method string
		params any
	}{
		{"Page.enable", nil},
		{"Network.setBypassServiceWorker", object{"bypass": true}},
		{"Fetch.enable", object{"patterns": []object{{"urlPattern": "*"}}}},
	} {
		if err := conn.Call(ctx, p.session, call.method, call.params, nil); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func attach(ctx context.Context, conn *cdp.Conn, target string) (session string, err error) {
	var attached struct{ SessionID string }
	err = conn.Call(ctx, "", "Target.attachToTarget", object{"targetId": target, "flatten": true}, &attached)
	return attached.SessionID, err
}

func detach(conn *cdp.Conn, session string) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = conn.Call(ctx, "", "Target.detachFromTarget", object{"sessionId": session}, nil) // fails if the tab was closed
}

// answer answers the requests of the tab until the subscription ends.
func (p *blankPage) answer() {
	for e := range p.requests.Events() {
		var paused struct{ RequestID string }
		if json.Unmarshal(e.Params, &paused) != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		reply, err := p.conn.Send(ctx, e.SessionID, "Fetch.fulfillRequest", object{
			"requestId": paused.RequestID, "responseCode": 200,
			"responseHeaders": []object{{"name": "Content-Type", "value": "text/html"}},
			"body":            base64.StdEncoding.EncodeToString([]byte(blankDocument)),
		})
		cancel()
		if err == nil {
			reply.Discard()
		}
	}
}

// open opens an empty document of an origin and returns its frame.
func (p *blankPage) open(ctx context.Context, origin string) (frame, error) {
	var navigation struct{ FrameID, ErrorText string }
	if err := p.conn.Call(ctx, p.session, "Page.navigate", object{"url": origin + "/"}, &navigation); err != nil {
		return frame{}, fmt.Errorf("open %s: %w", origin, err)
	}
	if navigation.ErrorText != "" {
		return frame{}, fmt.Errorf("open %s: %s", origin, navigation.ErrorText)
	}
	return frame{session: p.session, id: navigation.FrameID, origin: origin}, nil
}

// close closes the tab and waits until it is gone: Chromium answers before.
func (p *blankPage) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if p.target != "" && p.conn.Call(ctx, "", "Target.closeTarget", object{"targetId": p.target}, nil) == nil {
		for p.exists(ctx) {
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
	p.requests.Close()
	p.work.Wait()
}

// exists reports whether the browser still lists the tab.
func (p *blankPage) exists(ctx context.Context) bool {
	var list struct{ TargetInfos []targetInfo }
	err := p.conn.Call(ctx, "", "Target.getTargets", nil, &list)
	return err == nil && slices.ContainsFunc(list.TargetInfos, func(t targetInfo) bool { return t.TargetID == p.target })
}

// frame is a document of an origin.
type frame struct {
	session string // of CDP
	id      string
	origin  string
}

// call calls a function of storage.js with JSON arguments and decodes its result. The
// script runs in a world of its own, which scripts of the page cannot reach.
func (f frame) call(ctx context.Context, conn *cdp.Conn, function string, into any, args ...any) error {
	var world struct{ ExecutionContextID int64 }
	if err := conn.Call(ctx, f.session, "Page.createIsolatedWorld", object{"frameId": f.id, "worldName": "svc"}, &world); err != nil {
		return err
	}
	arguments := make([]object, len(args))
	for i, arg := range args {
		arguments[i] = object{"value": arg}
	}
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	err := conn.Call(ctx, f.session, "Runtime.callFunctionOn", object{
		"functionDeclaration": "(...args) => (" + storageScript + ")." + function + "(...args)",
		"executionContextId":  world.ExecutionContextID, "arguments": arguments, "awaitPromise": true, "returnByValue": true,
	}, &answer)
	switch {
	case err != nil:
		return err
	case answer.ExceptionDetails != nil:
		return &scriptError{f.origin, answer.ExceptionDetails.Exception.Description}
	case into == nil:
		return nil
	}
	return json.Unmarshal(answer.Result.Value, into)
}

// scriptError is an exception of storage.js.
type scriptError struct{ origin, description string }

func (e *scriptError) Error() string { return "storage of " + e.origin + ": " + e.firstLine() }

// firstLine returns the description without the stack.
func (e *scriptError) firstLine() string {
	line, _, _ := strings.Cut(e.description, "\n")
	return line
}
