package intercept

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/cdp/handover"
	"github.com/browser-svc/svc/worker/internal/cdp/tap"
	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

const (
	codeServer = -32000 // error code of CDP, as in JSON-RPC

	// maxAnswer limits the answers of the browser that are read, in bytes. Those to
	// intercepted calls have an id of a context, a target with its URL, or an error.
	maxAnswer = 256 << 10

	// sandboxBypass replaces a context's bypass list: its proxy bypasses, because the
	// browser has no other network.
	sandboxBypass = "<-loopback>"
)

// Connection handles the intercepted calls of one CDP connection. Its methods for
// messages of the client are called one at a time, as are those for the browser's.
type Connection struct {
	// Reply sends an answer of the worker to the client. A Relay sets it.
	Reply func(answer []byte) error
	// Client is who the messages of the client come from, for an observer. Nil: they are not observed.
	Client *tap.Client

	calls   *Calls
	pending atomic.Int32 // len(awaited)
	refused atomic.Pointer[refusal]
	replies sync.WaitGroup // answers that are sent later
	// exposing ends when the page of the latest Target.exposeDevToolsProtocol has the
	// protocol; nil before the first. It is read for each message, so without the lock.
	exposing atomic.Pointer[context.Context]

	mu        sync.Mutex
	requested *handover.Handover     // by this connection, while it is open
	awaited   map[string]awaitedCall // by callKey
	temporary []string               // contexts that Chromium disposes of when the connection ends
	captured  map[string]bool        // contexts whose download settings Chromium resets when the connection ends
	closed    bool

	ctx   context.Context // ends with Close
	leave context.CancelFunc
}

// awaitedCall is a call to the browser whose answer is awaited.
type awaitedCall struct {
	disposes   string // context; "" for a call that creates one
	closeProxy func() // of the new context; nil without a proxy
	temporary  bool   // the new context ends with the connection
	url        string // of a new page; "" for other calls
	closes     bool   // it closes the browser

	target *targetCall // it asks for the target of that call
}

// streams returns the streams of a relay: what the client sends, and what the browser
// sends.
func (n *Connection) streams(client, browser *ws.Raw) (*clientStream, *browserStream) {
	output := &browserStream{conn: client.Conn}
	n.Reply = output.Send
	input := &clientStream{browser: browser.Conn, calls: n, tapped: messageCopy{connection: n, kind: tap.Command}}
	output.frames.tapped = messageCopy{connection: n, kind: tap.Answer}
	output.frames.awaited = n.awaits
	output.frames.observe = func(message []byte) (hide bool) {
		hide, closeAccepted := n.observe(message)
		output.closeAccepted = closeAccepted || output.closeAccepted
		return hide
	}
	return input, output
}

// Held returns a context that ends when messages of clients may reach the browser
// again; nil while they may.
func (n *Connection) Held() context.Context {
	if exposing := n.exposing.Load(); exposing != nil && (*exposing).Err() == nil {
		return *exposing
	}
	return n.calls.Handovers().Held()
}

// HandleMessage processes a complete message of the client. It returns the frames for
// the browser, or an answer to the client. It returns neither for a call about a
// handover: the caller passes that to HandleHandover.
func (n *Connection) HandleMessage(m wsframe.Message) (forward, answer []byte) {
	n.observeMessage(tap.Command, m.Payload)
	forward, answer = n.handleMessage(m)
	if answer != nil {
		n.observeMessage(tap.Answer, func() []byte { return answer })
	}
	return forward, answer
}

func (n *Connection) handleMessage(m wsframe.Message) (forward, answer []byte) {
	switch tooLong := len(m.Raw) > n.maxDecoded(); {
	case m.Opcode == wsframe.Text && tooLong && n.calls.examinesAll():
		return nil, n.refuseUnclear()
	case m.Opcode != wsframe.Text || tooLong || n.isForBrowser(m.Raw):
		return m.Raw, nil
	}
	payload := m.Payload()
	switch n.classify(payload[:min(len(payload), maxPrefix)]) {
	case aboutHandover:
		return nil, nil
	case intercepted:
	case undecided:
		if !n.calls.examinesAll() {
			return m.Raw, nil
		}
	default:
		return m.Raw, nil
	}
	changed, answer := n.handle(payload)
	switch {
	case answer != nil:
		return nil, answer
	case changed != nil:
		return wsframe.FromClient(wsframe.Text, changed), nil
	}
	return m.Raw, nil
}

// isForBrowser reports whether the beginning of the first frame shows that a message is
// for the browser.
func (n *Connection) isForBrowser(raw []byte) bool {
	h, size, _ := wsframe.ReadHeader(raw) // its reader has validated the header
	head := raw[size:min(len(raw), size+int(min(h.Payload, firstLook)))]
	v := n.classify(h.Unmask(make([]byte, 0, firstLook), head, 0))
	return v == forBrowser || v == forWorker
}

// HandleAnswer reads a complete message of the browser, before the client gets it. It
// reports whether the client must not get it, and whether the browser has accepted
// Browser.close.
func (n *Connection) HandleAnswer(m wsframe.Message) (hide, closeAccepted bool) {
	defer func() {
		if !hide {
			n.observeMessage(tap.Answer, m.Payload)
		}
	}()
	if !n.awaits() || m.Opcode != wsframe.Text || len(m.Raw) > maxAnswer+wsframe.MaxHeader {
		return false, false
	}
	return n.observe(m.Payload())
}

// Close ends the connection: Chromium disposes of its temporary contexts and resets its
// download settings, and the handover that it has requested is canceled. The caller has
// closed the client's socket, and the browser must have closed its side.
func (n *Connection) Close() {
	n.mu.Lock()
	n.closed = true
	ended, unanswered, reset, requested := n.temporary, n.awaited, slices.Collect(maps.Keys(n.captured)), n.requested
	n.temporary, n.awaited, n.captured = nil, nil, nil
	n.mu.Unlock()
	if requested != nil {
		requested.Cancel()
	}
	n.leave()
	n.replies.Wait()
	if len(reset) > 0 {
		n.calls.CaptureDownloads(reset...)
	}
	for _, id := range ended {
		n.calls.closeProxy(id)
	}
	for _, call := range unanswered {
		if call.disposes != "" {
			n.calls.closeProxy(call.disposes)
		} else if call.temporary && call.closeProxy != nil {
			call.closeProxy()
		}
	}
}

// message is a message of either side. Its fields keep what is not changed.
type message map[string]json.RawMessage

func (m message) text(field string) (text string) {
	_ = json.Unmarshal(m[field], &text) // "" for another type
	return text
}

// callKey identifies a call on a connection; ok is false without an integer id.
func (m message) callKey() (key string, ok bool) {
	var id int64
	if m["id"] == nil || json.Unmarshal(m["id"], &id) != nil {
		return "", false
	}
	return strconv.FormatInt(id, 10) + "/" + m.text("sessionId"), true
}

// handle processes an intercepted call. It returns the message to forward in place of
// this one, or an answer, or neither if the message is to be forwarded unchanged.
// Invalid messages are the browser's to refuse.
func (n *Connection) handle(raw []byte) (forward, answer []byte) {
	var m, params message
	if n.calls == nil || json.Unmarshal(raw, &m) != nil || m["params"] != nil && json.Unmarshal(m["params"], &params) != nil {
		return nil, n.refuseUnclear()
	}
	key, ok := m.callKey()
	if !ok {
		return nil, n.refuseUnclear()
	}
	if text := n.calls.refusal(m.text("method"), params); text != "" {
		return nil, m.refuse(text)
	}
	switch m.text("method") {
	case createContext:
		return n.createContext(key, m, params)
	case disposeContext:
		if id := params.text("browserContextId"); n.calls.hasProxy(id) {
			n.await(key, awaitedCall{disposes: id})
		}
	case createTarget:
		return n.createTarget(key, m, params), nil
	case loadExtension:
		return nil, m.refuse("Extensions are loaded at the launch only: store the extension with POST /extensions and list its id in browser.extensions.")
	case setFiles:
		var files []string
		if json.Unmarshal(params["files"], &files) != nil {
			return nil, nil
		}
		for _, path := range files {
			if text := n.calls.checkFile(path); text != "" {
				return nil, n.refusePath(m, text)
			}
		}
	case callFunction:
		return nil, n.throwRefusal(m)
	case setDownloads:
		return n.setDownloads(m, params), nil
	case setPageDownloads:
		return nil, n.setPageDownloads(m, params)
	case closeBrowser:
		n.await(key, awaitedCall{closes: true})
	case fillSecret:
		return n.fillSecret(key, m)
	case exposeProtocol:
		return n.exposeProtocol(key, m, params), nil
	case sendToTarget:
		return nil, m.refuseNested(params)
	}
	return nil, nil
}

// createTarget makes a new page blank; observe navigates it.
func (n *Connection) createTarget(key string, m, params message) (forward []byte) {
	url := params.text("url")
	if !n.calls.opensBlank(url) {
		return nil
	}
	n.await(key, awaitedCall{url: url})
	params["url"] = encode("about:blank")
	m["params"] = encode(params)
	return encode(m)
}

// createContext opens the proxy of a new context.
func (n *Connection) createContext(key string, m, params message) (forward, answer []byte) {
	var temporary bool
	_ = json.Unmarshal(params["disposeOnDetach"], &temporary) // false for another type
	var server string
	if n.calls.OpenProxy == nil || json.Unmarshal(params["proxyServer"], &server) != nil {
		if n.calls.CaptureDownloads != nil {
			n.await(key, awaitedCall{temporary: temporary})
		}
		return nil, nil
	}
	address, closeProxy, err := n.calls.OpenProxy(server, params.text("proxyBypassList"))
	if err != nil {
		return nil, m.refuse("The proxyServer cannot be used: " + err.Error() + ".")
	}
	if address == "" {
		delete(params, "proxyServer")
		delete(params, "proxyBypassList")
		closeProxy = nil
	} else {
		params["proxyServer"], params["proxyBypassList"] = encode(address), encode(sandboxBypass)
	}
	if address != "" || n.calls.CaptureDownloads != nil {
		n.await(key, awaitedCall{closeProxy: closeProxy, temporary: temporary})
	}
	m["params"] = encode(params)
	return encode(m), nil
}

func (n *Connection) await(key string, call awaitedCall) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.awaited == nil {
		n.awaited = map[string]awaitedCall{}
	}
	if earlier := n.awaited[key]; earlier.closeProxy != nil { // never forwarded, and sent again
		earlier.closeProxy()
	}
	n.awaited[key] = call
	n.pending.Store(int32(len(n.awaited)))
}

// awaits reports whether an answer of the browser is awaited.
func (n *Connection) awaits() bool { return n.pending.Load() > 0 }

// observe reads a message of the browser, which may be an awaited answer. It reports
// whether the client must not get it, and whether the browser has accepted Browser.close.
func (n *Connection) observe(raw []byte) (hide, closeAccepted bool) {
	var m, result message
	if json.Unmarshal(raw, &m) != nil {
		return false, false
	}
	key, ok := m.callKey()
	if !ok {
		return false, false
	}
	n.mu.Lock()
	call, ok := n.awaited[key]
	delete(n.awaited, key)
	n.pending.Store(int32(len(n.awaited)))
	n.mu.Unlock()
	if !ok {
		return false, false
	}
	succeeded := json.Unmarshal(m["result"], &result) == nil
	id := result.text("browserContextId")
	switch {
	case call.url != "":
		if target := result.text("targetId"); target != "" {
			n.calls.Navigate(target, call.url)
		}
	case call.closes:
		if succeeded {
			n.calls.close()
		}
		return false, succeeded
	case call.target != nil && succeeded:
		return n.carryOut(*call.target, result["targetInfo"]), false
	case call.target != nil && call.target.end != nil:
		call.target.end()
	case call.disposes != "" && succeeded:
		n.calls.closeProxy(call.disposes)
	case call.disposes != "":
	case id == "" && call.closeProxy != nil:
		call.closeProxy()
	case id != "":
		n.addContext(id, call)
	}
	return false, false
}

// addContext registers a new context, before the client knows it.
func (n *Connection) addContext(id string, call awaitedCall) {
	if n.calls.CaptureDownloads != nil {
		n.calls.CaptureDownloads(id)
	}
	if call.closeProxy == nil {
		return
	}
	n.calls.add(id, call.closeProxy)
	if call.temporary {
		n.addTemporary(id)
	}
}

// addTemporary registers a context that ends with the connection.
func (n *Connection) addTemporary(id string) {
	n.mu.Lock()
	closed := n.closed
	n.temporary = append(n.temporary, id)
	n.mu.Unlock()
	if closed {
		n.calls.closeProxy(id)
	}
}

// Answer is an answer to a CDP call.
type Answer struct {
	ID        json.RawMessage `json:"id,omitempty"`
	Result    any             `json:"result,omitempty"`
	Error     *Error          `json:"error,omitempty"`
	SessionID json.RawMessage `json:"sessionId,omitempty"` // of a flat session, unchanged
}

// Error is the error of a CDP call.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// refuse returns the answer that a call failed.
func (m message) refuse(text string) []byte {
	return encode(Answer{ID: m["id"], SessionID: m["sessionId"], Error: &Error{codeServer, text}})
}

// encode encodes values that have been decoded before.
func encode(v any) json.RawMessage {
	raw, _ := json.Marshal(v)
	return raw
}
