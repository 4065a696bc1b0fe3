package intercept

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/cdp/tap"
	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

// drainTimeout limits how long a relay continues when one side has ended.
const drainTimeout = 3 * time.Second

// Ending is the reason for the end of a relay.
type Ending int

// The reasons.
const (
	BrowserLeft   Ending = iota // the browser or its side of the connection has ended, or the worker stops the relay
	CloseAccepted               // the browser has accepted Browser.close
	ClientLeft                  // the client has sent a close frame or an invalid one, or its side has ended
)

// RelayOptions configures a Relay. Only Calls is required.
type RelayOptions struct {
	Calls *Calls          // of the browser; nil intercepts nothing
	Done  <-chan struct{} // closed when the browser has ended
	// Client is who the client is, for an observer of its commands. Nil: they are not observed.
	Client *tap.Client
	// Watch counts the client until stop is called.
	Watch func(client net.Conn) (stop func())
	// Answer answers messages to the worker. Nil: the browser gets them.
	Answer func(message []byte) Answer
	// End is called before the client sees the end of the connection, or the answer to its
	// Browser.close. It may be called several times, also at the same time. ctx ends when the
	// client has left or the relay is stopped. status and reason are for the close frame that
	// the client gets if the browser has sent none; the status 0 means no frame.
	End func(ctx context.Context, e Ending) (status uint16, reason string)
}

// Relay connects a client with a browser. Each direction has a goroutine, which reads only
// what the other side accepts. When a direction, the browser or the context has ended:
//
//  1. End is called.
//  2. The browser gets the end of what the client sends. The client gets what the browser
//     sends until then.
//  3. The client gets a close frame, unless it had one, and the end of what the browser
//     sends. The browser gets what the client sends until it disconnects.
//
// After End, this takes at most drainTimeout. If the context has ended, step 3 does not
// wait, and step 2 only if there is a close frame to send. A browser has drainTimeout to
// answer a close frame.
type Relay struct {
	RelayOptions
	client, browser *ws.Raw
	connection      *Connection
	input           *clientStream
	output          *browserStream
}

// NewRelay returns a Relay, which owns both sockets. The caller must call Run.
func NewRelay(client, browser *ws.Raw, o RelayOptions) *Relay {
	r := &Relay{RelayOptions: o, client: client, browser: browser, connection: o.Calls.Connect()}
	r.connection.Client = o.Client
	r.input, r.output = r.connection.streams(client, browser)
	r.input.answer = o.Answer
	r.input.onClose = func() { _ = browser.Conn.SetReadDeadline(time.Now().Add(drainTimeout)) }
	return r
}

// HasClientLeft reports whether the client has left, also if the relay has not read that yet.
func (r *Relay) HasClientLeft() bool { return r.input.hasLeft.Load() || IsClosed(r.client.Conn) }

// directions are the two goroutines of a relay.
type directions struct {
	running     sync.WaitGroup
	fromClient  chan struct{} // closed when what the client sends has ended
	err         error         // of fromClient
	fromBrowser chan struct{} // closed when what the browser sends has ended
}

// Run forwards frames until the relay has ended.
func (r *Relay) Run(ctx context.Context) {
	defer r.connection.Close()
	present, leave := context.WithCancel(ctx)
	defer leave()
	r.output.beforeEnd = func(closeAccepted bool) { r.end(present, closeAccepted) }
	stop := func() {}
	if r.Watch != nil {
		stop = r.Watch(r.client.Conn)
	}
	d := &directions{fromClient: make(chan struct{}), fromBrowser: make(chan struct{})}
	d.running.Go(func() {
		defer close(d.fromClient)
		if d.err = r.input.Run(r.client); !errors.Is(d.err, errBrowserClosed) {
			r.input.hasLeft.Store(true)
			leave()
		}
	})
	d.running.Go(func() {
		defer close(d.fromBrowser)
		_ = r.output.Run(r.browser) // either side may disconnect at any time
	})
	select {
	case <-d.fromClient:
	case <-d.fromBrowser:
	case <-r.Done:
	case <-ctx.Done():
	}
	status, reason := r.end(present, false)
	r.drain(ctx, d, status, reason)
	stop()
	_, _ = r.client.Conn.Close(), r.browser.Conn.Close()
	d.running.Wait()
}

// end calls End.
func (r *Relay) end(ctx context.Context, closeAccepted bool) (status uint16, reason string) {
	if r.End == nil {
		return 0, ""
	}
	e := BrowserLeft
	switch {
	case closeAccepted:
		e = CloseAccepted
	case r.input.hasLeft.Load():
		e = ClientLeft
	}
	return r.End(ctx, e)
}

// drain delivers what both sides have sent, and the close frame between.
func (r *Relay) drain(ctx context.Context, d *directions, status uint16, reason string) {
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	deadline, _ := limit.Deadline()
	_ = r.client.Conn.SetWriteDeadline(deadline)
	if !hasEnded(d.fromBrowser) {
		r.browser.CloseWrite()
		if ctx.Err() != nil && status == 0 {
			return
		}
		select {
		case <-d.fromBrowser:
		case <-limit.Done():
		}
	}
	if hasEnded(d.fromClient) && closeStatus(d.err) != 0 {
		status, reason = closeStatus(d.err), ""
	}
	if status != 0 {
		r.output.sendClose(status, reason)
	}
	r.client.CloseWrite()
	select {
	case <-d.fromClient:
	case <-limit.Done():
	case <-ctx.Done():
	}
}

// closeStatus returns the status of the close frame for an error of what the client sends; 0 for none.
func closeStatus(err error) uint16 {
	switch {
	case errors.Is(err, wsframe.ErrProtocol):
		return wsframe.ProtocolError
	case errors.Is(err, errTooManyAnswers), errors.Is(err, errTooLong):
		return wsframe.Policy
	}
	return 0
}

func hasEnded(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
