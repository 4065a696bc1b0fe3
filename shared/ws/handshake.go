package ws

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // the handshake's own
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/browser-svc/svc/shared/fault"
)

const (
	handshakeTimeout = 10 * time.Second
	maxHead          = 64 << 10 // of a server's answer, in bytes
)

// keepAlive detects lost clients within two minutes.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Minute, Interval: 15 * time.Second, Count: 4}

// CheckHandshake returns a Validation fault unless the request is a WebSocket
// handshake (RFC 6455, 4.2.1).
func CheckHandshake(r *http.Request) error {
	switch {
	case !IsUpgrade(r):
		return notWebSocket(nil)
	case r.Header.Get("Sec-WebSocket-Version") != "13":
		return fault.New(fault.Validation, "This endpoint supports only version 13 of the WebSocket protocol.", fault.Detail{
			Field: "Sec-WebSocket-Version", Code: fault.InvalidEnumValue, Message: "must be 13",
			Constraint: map[string]any{"allowed": []string{"13"}},
		})
	case r.Header.Get("Sec-WebSocket-Key") == "": // the key itself is not checked, because some clients do not send 16 bytes
		return fault.New(fault.Validation, "The WebSocket handshake has no Sec-WebSocket-Key.", fault.Detail{
			Field: "Sec-WebSocket-Key", Code: fault.Required, Message: "is required",
		})
	}
	return nil
}

// IsUpgrade reports whether a request asks for a WebSocket.
func IsUpgrade(r *http.Request) bool {
	return r.Method == http.MethodGet && hasToken(r.Header, "Connection", "upgrade") && hasToken(r.Header, "Upgrade", "websocket")
}

// notWebSocket returns the fault for a request without a WebSocket upgrade.
func notWebSocket(cause error) error {
	return fault.Wrap(cause, fault.Validation, "This endpoint accepts only WebSocket connections.", fault.Detail{
		Field: "Upgrade", Code: fault.Custom, Message: "must be websocket, in a GET request with Connection: Upgrade",
	})
}

func hasToken(h http.Header, name, token string) bool {
	for _, line := range h.Values(name) {
		for part := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

// Raw is one side of a relayed WebSocket after its handshake. The owner reads,
// writes and closes the frames.
type Raw struct {
	Conn  net.Conn
	Early []byte // data that the peer sent after the handshake
}

// CloseWrite closes the write side of the connection, or all of it where that is not
// possible. Errors are ignored: the peer may close at any time.
func (r *Raw) CloseWrite() {
	if half, ok := r.Conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	} else {
		_ = r.Conn.Close()
	}
}

// Upstream is the connection to the server of a relayed WebSocket.
type Upstream struct {
	Raw
	answer http.Header // headers of its 101 response
}

// DialUpstream performs the handshake with the server at host:port on a
// client's behalf, within ten seconds. dial connects to the server; nil means
// TCP. The client's key is passed on, so the server's answer is valid for the
// client. The server sees a local program: its own host, and no origin, cookies
// or credentials. Extensions are not offered. It returns a *RefusedError
// without a body if the server refuses.
func DialUpstream(
	ctx context.Context, dial func(context.Context) (net.Conn, error), address, path string, client http.Header,
) (*Upstream, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if dial == nil {
		dial = func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", address) }
	}
	conn, err := dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("dial websocket: %w", err)
	}
	interrupt := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	up, err := upgrade(conn, address, path, client)
	if !interrupt() { // the deadline was set to the past
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("dial websocket: %w", err)
	}
	return up, nil
}

func upgrade(conn net.Conn, host, path string, client http.Header) (*Upstream, error) {
	head := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}}
	copyHeaders(head, client, "Sec-WebSocket-Key", "Sec-WebSocket-Protocol")
	if err := writeHead(conn, "GET "+path+" HTTP/1.1\r\nHost: "+host, head); err != nil {
		return nil, err
	}
	r := bufio.NewReader(&io.LimitedReader{R: conn, N: maxHead})
	answer, err := http.ReadResponse(r, nil) //nolint:bodyclose // an upgrade's answer has no body
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return nil, &RefusedError{Status: answer.StatusCode}
	}
	early, _ := r.Peek(r.Buffered()) // only buffered data, copied so that the buffer is released
	return &Upstream{Raw: Raw{Conn: conn, Early: bytes.Clone(early)}, answer: answer.Header}, nil
}

// TakeOver takes over the client's connection and sends the server's answer to the client,
// with the headers set on w. prepare is called before the client gets the answer; nil: no
// call.
func (u *Upstream) TakeOver(w http.ResponseWriter, prepare func(client *Raw)) (*Raw, error) {
	return takeOver(w, u.answer, prepare)
}

// TakeOver answers a handshake that passed CheckHandshake, with the headers set
// on w, and takes over the connection. No extension or subprotocol is
// negotiated.
func TakeOver(w http.ResponseWriter, r *http.Request) (*Raw, error) {
	accept := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // RFC 6455, 4.2.2
	return takeOver(w, http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Accept": {base64.StdEncoding.EncodeToString(accept[:])},
	}, nil)
}

func takeOver(w http.ResponseWriter, answer http.Header, prepare func(client *Raw)) (*Raw, error) {
	head := w.Header().Clone()
	conn, buffer, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fmt.Errorf("take over the connection: %w", err)
	}
	_ = conn.SetDeadline(time.Time{}) // removes the server's deadline
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetKeepAliveConfig(keepAlive)
	}
	early, _ := buffer.Peek(buffer.Reader.Buffered()) // likewise
	copyHeaders(head, answer, "Connection", "Upgrade", "Sec-WebSocket-Accept", "Sec-WebSocket-Protocol")
	client := &Raw{Conn: conn, Early: bytes.Clone(early)}
	if prepare != nil {
		prepare(client)
	}
	_ = client.Conn.SetWriteDeadline(time.Now().Add(handshakeTimeout))
	_ = writeHead(client.Conn, "HTTP/1.1 101 Switching Protocols", head) // if the client has disconnected, the relay ends
	_ = client.Conn.SetWriteDeadline(time.Time{})
	return client, nil
}

func copyHeaders(dst, src http.Header, names ...string) {
	for _, name := range names {
		if values := src.Values(name); len(values) > 0 {
			dst[http.CanonicalHeaderKey(name)] = values
		}
	}
}

func writeHead(w io.Writer, first string, h http.Header) error {
	var b strings.Builder
	b.WriteString(first + "\r\n")
	_ = h.Write(&b) // a Builder doesn't fail
	b.WriteString("\r\n")
	_, err := io.WriteString(w, b.String())
	return err
}
