package launchsock

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
	handshakeTimeout = 10 * time.Second
	maxHead          = 64 << 10 // of the browser's answer, in bytes
)

// checkHandshake refuses what is no WebSocket handshake (RFC 6455, 4.2.1).
func checkHandshake(r *http.Request) error {
	switch {
	case !hasToken(r.Header, "Connection", "upgrade"), !hasToken(r.Header, "Upgrade", "websocket"):
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

// upstream is a connection that the browser has upgraded.
type upstream struct {
	conn   *net.TCPConn
	accept string // what the client is to be answered with
	early  []byte // what the browser said right after
}

// dial shakes hands with the browser by the client's key, so that its answer is
// the client's. It sees a local program: its own host, no origin, no credential.
func dial(ctx context.Context, port int, path, key string) (*upstream, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	host := fmt.Sprintf("127.0.0.1:%d", port)
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp4", host)
	if err != nil {
		return nil, fmt.Errorf("connect to the browser: %w", err)
	}
	interrupt := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	up, err := shake(c.(*net.TCPConn), host, path, key)
	if !interrupt() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("connect to the browser: %w", err)
	}
	return up, nil
}

func shake(conn *net.TCPConn, host, path, key string) (*upstream, error) {
	const request = "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n"
	if _, err := fmt.Fprintf(conn, request, path, host, key); err != nil {
		return nil, err
	}
	r := bufio.NewReader(&io.LimitedReader{R: conn, N: maxHead})
	answer, err := http.ReadResponse(r, nil) //nolint:bodyclose // an upgrade's answer has no body
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return nil, fmt.Errorf("it answered with status %d", answer.StatusCode)
	}
	early := make([]byte, r.Buffered())
	_, err = io.ReadFull(r, early)
	return &upstream{conn: conn, accept: answer.Header.Get("Sec-WebSocket-Accept"), early: early}, err
}
