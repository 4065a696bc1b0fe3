// Package ws wraps the WebSocket library; no other package imports it. Conn
// handles messages, for the live view and DevTools clients. Relays pass bytes
// through and need only the handshakes with both sides.
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

// Conn is a WebSocket connection. It supports one reader and any number of
// writers at a time. The connection is closed when the context of a Read or
// Write ends.
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

// Read returns the next message.
func (c *Conn) Read(ctx context.Context) (Kind, []byte, error) { return c.conn.Read(ctx) }

// Write sends a message.
func (c *Conn) Write(ctx context.Context, kind Kind, message []byte) error {
	return c.conn.Write(ctx, kind, message)
}

// Ping sends a ping and waits for the pong. Another goroutine must be reading.
func (c *Conn) Ping(ctx context.Context) error { return c.conn.Ping(ctx) }

// Close sends a close frame, waits a few seconds for the answer and closes the
// connection. The reason may have 123 bytes.
func (c *Conn) Close(status Status, reason string) error { return c.conn.Close(status, reason) }

// CloseNow closes the connection without a close frame.
func (c *Conn) CloseNow() error { return c.conn.CloseNow() }

// Stream returns the connection as a byte stream: each Write sends a message of
// the kind, Read joins the messages. The stream ends with ctx.
func (c *Conn) Stream(ctx context.Context, kind Kind) net.Conn {
	return websocket.NetConn(ctx, c.conn, kind)
}

// Status is the status code of a close frame.
type Status = websocket.StatusCode

// The statuses in use.
const (
	NormalClosure   = websocket.StatusNormalClosure
	GoingAway       = websocket.StatusGoingAway
	PolicyViolation = websocket.StatusPolicyViolation
	MessageTooBig   = websocket.StatusMessageTooBig
	InternalError   = websocket.StatusInternalError
)

// CloseStatus returns the status of the peer's close frame, or -1 for any other
// error.
func CloseStatus(err error) Status { return websocket.CloseStatus(err) }

// Options configures a connection. The zero value accepts messages of up to
// DefaultReadLimit bytes, from pages of the same host.
type Options struct {
	// ReadLimit is the maximum size of a received message in bytes; negative is
	// unlimited.
	ReadLimit int64

	// Origins are additional hosts whose pages may connect, in addition to the host of the
	// request; patterns as in path.Match. Requests without an Origin are not from pages
	// and are always accepted. For Accept only.
	Origins []string

	// DialContext connects to the server; nil uses the network. For Dial only.
	DialContext func(ctx context.Context) (net.Conn, error)
}

// DefaultReadLimit is the default of ReadLimit, in bytes. A DevTools screenshot
// fits.
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

// Accept upgrades a request to a WebSocket. On failure it writes nothing and
// returns a fault: Forbidden for a foreign origin, Validation for an invalid
// handshake.
func Accept(w http.ResponseWriter, r *http.Request, options Options) (*Conn, error) {
	recorder := &refusalRecorder{ResponseWriter: w}
	conn, err := websocket.Accept(recorder, r, &websocket.AcceptOptions{
		OriginPatterns:  options.Origins,
		CompressionMode: websocket.CompressionDisabled,
	})
	if err == nil {
		return options.wrap(conn), nil
	}
	switch {
	case recorder.status == http.StatusForbidden:
		return nil, fault.Wrap(err, fault.Forbidden, "Pages of this origin are not allowed to connect.")
	case recorder.status >= 400 && recorder.status < 500:
		return nil, notWebSocket(err)
	}
	return nil, fmt.Errorf("accept websocket: %w", err)
}

// refusalRecorder passes on the handshake and suppresses the library's own
// error responses, because the caller writes the error envelope.
type refusalRecorder struct {
	http.ResponseWriter
	status int
	header http.Header
}

// Header returns a copy of the response's header, which is applied with the
// handshake only.
func (w *refusalRecorder) Header() http.Header {
	if w.header == nil {
		w.header = w.ResponseWriter.Header().Clone()
	}
	return w.header
}

// WriteHeader passes on status 101 and records any other.
func (w *refusalRecorder) WriteHeader(status int) {
	w.status = status
	if status != http.StatusSwitchingProtocols {
		return
	}
	maps.Copy(w.ResponseWriter.Header(), w.Header())
	w.ResponseWriter.WriteHeader(status)
}

// Write discards the body of an error response.
func (w *refusalRecorder) Write(p []byte) (int, error) { return len(p), nil }

// Hijack implements http.Hijacker.
func (w *refusalRecorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// RefusedError is an answer of the server that is not a WebSocket handshake.
type RefusedError struct {
	Status int
	Body   string // at most the first kilobyte
}

// Error implements error.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("websocket refused with status %d: %s", e.Status, e.Body)
}

// Dial connects to a ws, wss, http or https URL. The context bounds the
// handshake only. It returns a *RefusedError if the server refuses the
// handshake.
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
