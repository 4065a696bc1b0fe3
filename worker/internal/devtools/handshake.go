package devtools

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/browser-svc/svc/shared/fault"
)

const (
	dialTimeout      = 5 * time.Second
	handshakeTimeout = 10 * time.Second
	maxHead          = 64 << 10 // of Chromium's answer, in bytes
)

// checkHandshake refuses what is no WebSocket handshake (RFC 6455, 4.2.1).
func checkHandshake(r *http.Request) error {
	switch {
	case r.Method != http.MethodGet, !hasToken(r.Header, "Connection", "upgrade"), !hasToken(r.Header, "Upgrade", "websocket"):
		return fault.New(fault.Validation, "This address speaks WebSocket only.")
	case r.Header.Get("Sec-WebSocket-Version") != "13":
		return fault.New(fault.Validation, "This address speaks version 13 of WebSocket only.")
	case r.Header.Get("Sec-WebSocket-Key") == "": // what it says is not judged: clients are known that send no 16 bytes
		return fault.New(fault.Validation, "The WebSocket handshake carries no key.")
	}
	return nil
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

// upstream is a connection that Chromium has upgraded.
type upstream struct {
	conn   *net.TCPConn
	answer http.Header // of its 101
	early  []byte      // what it said right after
}

// refusedError is Chromium's answer other than an upgrade.
type refusedError struct{ status int }

func (e *refusedError) Error() string {
	return fmt.Sprintf("chromium refused with status %d", e.status)
}

// dialChromium shakes hands on the client's behalf. Chromium sees a local
// program: its own host, no origin, no cookie, no credential. Extensions are
// not offered.
func dialChromium(ctx context.Context, port int, path string, client http.Header) (up *upstream, err error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	host := loopback(port)
	dialer := net.Dialer{Timeout: dialTimeout}
	c, err := dialer.DialContext(ctx, "tcp4", host)
	if err != nil {
		return nil, err
	}
	conn := c.(*net.TCPConn)
	expire := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if !expire() && err == nil { // the deadline is in the past by now, or will be
			err = ctx.Err()
		}
		if err != nil {
			_ = conn.Close()
			up = nil
		}
	}()
	head := http.Header{}
	for _, name := range []string{"Sec-WebSocket-Key", "Sec-WebSocket-Protocol"} {
		if values := client.Values(name); len(values) > 0 {
			head[http.CanonicalHeaderKey(name)] = values
		}
	}
	head.Set("Connection", "Upgrade")
	head.Set("Upgrade", "websocket")
	head.Set("Sec-WebSocket-Version", "13")
	if err := writeHead(conn, "GET "+path+" HTTP/1.1\r\nHost: "+host, head); err != nil {
		return nil, err
	}
	return readAnswer(conn)
}

func readAnswer(conn *net.TCPConn) (*upstream, error) {
	r := bufio.NewReader(&io.LimitedReader{R: conn, N: maxHead})
	answer, err := http.ReadResponse(r, nil) //nolint:bodyclose // an upgrade's answer has no body
	if err != nil {
		return nil, fmt.Errorf("read chromium's answer: %w", err)
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return nil, &refusedError{answer.StatusCode}
	}
	early := make([]byte, r.Buffered())
	if _, err := io.ReadFull(r, early); err != nil {
		return nil, fmt.Errorf("read chromium's answer: %w", err)
	}
	return &upstream{conn: conn, answer: answer.Header, early: early}, nil
}

func writeHead(w io.Writer, first string, h http.Header) error {
	var b strings.Builder
	b.WriteString(first + "\r\n")
	_ = h.Write(&b) // a Builder doesn't fail
	b.WriteString("\r\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
