package browser

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/cdp/intercept"
	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

const (
	exposeTimeout = 5 * time.Second // of Target.exposeDevToolsProtocol
	maxPageCalls  = 4096            // of a page, that wait for the relay
	maxDocuments  = 5               // of a page, while the protocol is exposed to it
)

// channelTargets are the targets that have the protocol.
type channelTargets struct {
	mu      sync.Mutex
	targets map[string]bool
}

// reserve reports whether a target does not have the protocol yet.
func (p *channelTargets) reserve(targetID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.targets[targetID] {
		return false
	}
	if p.targets == nil {
		p.targets = map[string]bool{}
	}
	p.targets[targetID] = true
	return true
}

func (p *channelTargets) release(targetID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.targets, targetID)
}

// pageChannel connects a page that has the protocol with the browser, as a client.
type pageChannel struct {
	binding string // name of the object in the page
	page    *cdp.Conn
	calls   *cdp.Subscription
	browser *ws.Upstream
	relay   *intercept.Relay
	client  net.Conn // the client's side of the relay
}

// exposeProtocol gives a page the protocol until it closes, as Chromium does, but with the
// worker between: see package intercept.
func (b *Browser) exposeProtocol(ctx context.Context, targetID, binding string) error {
	if !b.drivers.begin() {
		return fault.Wrap(ErrEnded, fault.Conflict, "The browser has ended.")
	}
	if !b.channels.reserve(targetID) {
		b.drivers.work.Done()
		return fault.New(fault.Conflict, "The page has the protocol already.")
	}
	end := func() {
		b.channels.release(targetID)
		b.drivers.work.Done()
	}
	ctx, cancel := context.WithTimeout(ctx, exposeTimeout)
	defer cancel()
	defer context.AfterFunc(b.drivers.ctx, cancel)()
	c, err := b.openPageChannel(ctx, targetID, binding)
	if err != nil {
		end()
		b.l.log.Warn("failed to expose the protocol to a page", "launchId", b.LaunchID, "error", err) // chromedriver ignores the answer
		return fault.Wrap(err, fault.Unavailable, "The page does not answer.")
	}
	go func() {
		defer end()
		c.run(b.drivers.ctx)
	}()
	return nil
}

// openPageChannel prepares a page and connects with the browser.
func (b *Browser) openPageChannel(ctx context.Context, targetID, binding string) (_ *pageChannel, err error) {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(b.debugPort))
	socket, err := ws.Dial(ctx, "ws://"+address+"/devtools/page/"+url.PathEscape(targetID), nil, ws.Options{ReadLimit: cdp.MaxMessage, DialContext: b.Dial})
	if err != nil {
		return nil, err
	}
	c := &pageChannel{binding: binding, page: cdp.OverWebSocket(socket)}
	c.calls = c.page.Subscribe(maxPageCalls, "Runtime.bindingCalled")
	if err = c.prepare(ctx); err == nil {
		key := http.Header{"Sec-Websocket-Key": {base64.StdEncoding.EncodeToString([]byte(rand.Text())[:16])}}
		c.browser, err = ws.DialUpstream(ctx, b.Dial, address, b.WebSocketPath, key)
	}
	if err != nil {
		return nil, errors.Join(err, c.page.Close())
	}
	client, relayEnd := net.Pipe()
	c.client = client
	c.relay = intercept.NewRelay(&ws.Raw{Conn: relayEnd}, &c.browser.Raw, intercept.RelayOptions{Calls: b.calls, Done: c.page.Done()})
	return c, nil
}

// prepareScript replaces the binding, a function, with the object, in the main frame only. It
// may run twice in a document.
const prepareScript = `(name => {
	const send = window[name];
	if (typeof send !== "function") return;
	delete window[name];
	if (window === window.top) window[name] = {send, onmessage: () => {}};
})(%s)`

// prepare makes the object in the document and in those that follow it.
func (c *pageChannel) prepare(ctx context.Context) error {
	script := fmt.Sprintf(prepareScript, literal(c.binding))
	for _, call := range []struct {
		method string
		params any
	}{
		{"Page.enable", nil},
		{"Runtime.enable", nil}, // keeps the binding in documents of other processes
		{"Runtime.addBinding", object{"name": c.binding}},
		{"Page.addScriptToEvaluateOnNewDocument", object{"source": script}},
	} {
		if err := c.page.Call(ctx, "", call.method, call.params, nil); err != nil {
			return err
		}
	}
	return c.evaluate(ctx, script)
}

// evaluate evaluates a script, again if another document replaces the present one, which
// happens to a new page.
func (c *pageChannel) evaluate(ctx context.Context, script string) (err error) {
	for range maxDocuments {
		err = c.page.Call(ctx, "", "Runtime.evaluate", object{"expression": script}, nil)
		if _, refused := errors.AsType[*cdp.Error](err); !refused {
			return err
		}
	}
	return err
}

// run relays messages until the page closes, the browser closes the connection or ctx ends.
func (c *pageChannel) run(ctx context.Context) {
	var work sync.WaitGroup
	work.Go(c.sendCalls)
	work.Go(func() { c.deliver(ctx) })
	c.relay.Run(ctx)
	_, _ = c.client.Close(), c.page.Close()
	work.Wait()
}

// sendCalls sends what the page sends.
func (c *pageChannel) sendCalls() {
	defer c.client.Close()
	for e := range c.calls.Events() {
		var call struct{ Name, Payload string }
		if json.Unmarshal(e.Params, &call) != nil || call.Name != c.binding {
			continue
		}
		if _, err := c.client.Write(wsframe.FromClient(wsframe.Text, []byte(call.Payload))); err != nil {
			return
		}
	}
}

// deliver gives the page what it receives, in order.
func (c *pageChannel) deliver(ctx context.Context) {
	defer c.client.Close()
	messages := wsframe.NewReader(c.client, false, cdp.MaxMessage)
	for {
		m, err := messages.Next()
		if err != nil {
			return
		}
		if m.Opcode != wsframe.Text {
			continue
		}
		script := fmt.Sprintf("try { window[%s].onmessage(%s) } catch (e) { console.error(e) }", literal(c.binding), literal(string(m.Payload())))
		reply, err := c.page.Send(ctx, "", "Runtime.evaluate", object{"expression": script})
		if err != nil {
			return
		}
		reply.Discard()
	}
}

// literal returns a text as a literal of JavaScript.
func literal(text string) string {
	raw, _ := json.Marshal(text) // a text
	return string(raw)
}
