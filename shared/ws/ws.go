// Package ws is the only place that knows the WebSocket library. Conn speaks
// messages, as the live view and DevTools clients do. A relay that passes bytes
// through needs none of the library: for that, the handshakes with both sides.
//
//nolint:staticcheck // the library goes on under another name; this file is the place to change it
package ws

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"

	"nhooyr.io/websocket"

	"github.com/browser-svc/svc/shared/fault"
)

// Conn is one end of a WebSocket. One reader and any number of writers may use
// it at once. When the context of a Read or Write ends, the connection is closed.
type Conn struct {
	conn *websocket.Conn
}

// Kind is the type of a message.
type Kind = websocket.MessageType

// The kinds.
const (
	Text   = websocket.MessageText
	Binary = websocket.MessageBinary
)

// Read waits for a message.
func (c *Conn) Read(ctx context.Context) (Kind, []byte, error) { return c.conn.Read(ctx) }

// Write sends a message.
func (c *Conn) Write(ctx context.Context, kind Kind, message []byte) error {
	return c.conn.Write(ctx, kind, message)
}

// Ping asks the peer for a sign of life and waits for it; somebody must be
// reading meanwhile.
func (c *Conn) Ping(ctx context.Context) error { return c.conn.Ping(ctx) }

// Close says why the connection ends, waits a few seconds for the peer to agree
// and closes it. The reason may have 123 bytes.
func (c *Conn) Close(status Status, reason string) error { return c.conn.Close(status, reason) }

// CloseNow closes the connection without a word.
func (c *Conn) CloseNow() error { return c.conn.CloseNow() }

// Stream makes a byte stream of the connection: each Write is a message of that
// kind, Read joins the messages. It lives until ctx ends.
func (c *Conn) Stream(ctx context.Context, kind Kind) net.Conn {
	return websocket.NetConn(ctx, c.conn, kind)
}

// Status is why a connection was closed.
type Status = websocket.StatusCode

// The statuses in use.
const (
	NormalClosure   = websocket.StatusNormalClosure
	GoingAway       = websocket.StatusGoingAway
	PolicyViolation = websocket.StatusPolicyViolation
	MessageTooBig   = websocket.StatusMessageTooBig
	InternalError   = websocket.StatusInternalError
)

// CloseStatus is the status that the peer closed with, or -1 when err is
// something else.
func CloseStatus(err error) Status { return websocket.CloseStatus(err) }

// Options bounds a connection. The zero value takes messages of up to
// DefaultReadLimit bytes from pages of the same host.
type Options struct {
	// ReadLimit is the largest message taken, in bytes; negative for any size.
	ReadLimit int64

	// Origins are the hosts, beside the request's own, whose pages may connect;
	// patterns as in path.Match. A request without an Origin is no page and may
	// always. Accept only.
	Origins []string

	// DialContext connects to the server; nil is the network's way. Dial only.
	DialContext func(ctx context.Context) (net.Conn, error)
}

// DefaultReadLimit is the largest message taken when Options says nothing, in
// bytes: a DevTools screenshot fits.
const DefaultReadLimit = 64 << 20

func (o Options) wrap(conn *websocket.Conn) *Conn {
	switch {
	case o.ReadLimit == 0:
		conn.SetReadLimit(DefaultReadLimit)
	case o.ReadLimit < 0:
		conn.SetReadLimit(-1)
	default:
		conn.SetReadLimit(o.ReadLimit)
	}
	return &Conn{conn: conn}
}

// Accept turns the request into a WebSocket. When it can't it writes nothing
// and returns a fault: Forbidden for a foreign origin, Validation for a request
// that is no handshake.
func Accept(w http.ResponseWriter, r *http.Request, options Options) (*Conn, error) {
	held := &refusalRecorder{ResponseWriter: w}
	conn, err := websocket.Accept(held, r, &websocket.AcceptOptions{
		OriginPatterns:  options.Origins,
		CompressionMode: websocket.CompressionDisabled,
	})
	if err == nil {
		return options.wrap(conn), nil
	}
	switch {
	case held.status == http.StatusForbidden:
		return nil, fault.Wrap(err, fault.Forbidden, "Pages of this origin may not connect.")
	case held.status >= 400 && held.status < 500:
		return nil, notWebSocket(err)
	}
	return nil, fmt.Errorf("accept websocket: %w", err)
}

// refusalRecorder lets the handshake through and keeps the library's own refusals
// from the client, which is owed a failure envelope.
type refusalRecorder struct {
	http.ResponseWriter
	status int
	header http.Header
}

// Header is the response's own until the library refuses.
func (w *refusalRecorder) Header() http.Header {
	if w.header == nil {
		w.header = w.ResponseWriter.Header().Clone()
	}
	return w.header
}

// WriteHeader passes the handshake's 101 on and remembers anything else.
func (w *refusalRecorder) WriteHeader(status int) {
	w.status = status
	if status != http.StatusSwitchingProtocols {
		return
	}
	maps.Copy(w.ResponseWriter.Header(), w.Header())
	w.ResponseWriter.WriteHeader(status)
}

// Write drops the text of a refusal.
func (w *refusalRecorder) Write(p []byte) (int, error) { return len(p), nil }

// Hijack implements http.Hijacker.
func (w *refusalRecorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// RefusedError is a server's answer other than a WebSocket.
type RefusedError struct {
	Status int
	Body   string // at most its first kilobyte
}

// Error implements error.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("websocket refused with status %d: %s", e.Status, e.Body)
}

// Dial connects to a ws, wss, http or https address. The context bounds the
// handshake only. A server that answers with something else gives a
// *RefusedError.
func Dial(ctx context.Context, address string, header http.Header, options Options) (*Conn, error) {
	how := &websocket.DialOptions{HTTPHeader: header, CompressionMode: websocket.CompressionDisabled}
	if dial := options.DialContext; dial != nil {
		how.HTTPClient = &http.Client{Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		}}
	}
	conn, answer, err := websocket.Dial(ctx, address, how) //nolint:bodyclose // the library closes it
	switch {
	case err == nil:
		return options.wrap(conn), nil
	case answer != nil:
		body, _ := io.ReadAll(answer.Body)
		return nil, &RefusedError{Status: answer.StatusCode, Body: string(body)}
	}
	return nil, fmt.Errorf("dial websocket: %w", err)
}
