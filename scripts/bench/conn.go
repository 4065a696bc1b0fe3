package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"time"
)

// conn is a persistent HTTP/1.1 connection with minimal overhead, because the client
// shares the cores with the server.
type conn struct {
	net    net.Conn
	reader *bufio.Reader
	body   []byte // of the last answer, if kept
	keep   bool
}

// connLifetime bounds the lifetime of a connection.
const connLifetime = 20 * time.Minute

// connect opens n connections. They are closed when the context ends.
func connect(ctx context.Context, address string, n int) ([]*conn, func(), error) {
	var all []*conn
	closeAll := func() {
		for _, c := range all {
			_ = c.net.Close()
		}
	}
	stop := context.AfterFunc(ctx, closeAll)
	for range n {
		c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", address)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		_ = c.SetDeadline(time.Now().Add(connLifetime))
		all = append(all, &conn{net: c, reader: bufio.NewReader(c)})
	}
	return all, func() { stop(); closeAll() }, nil
}

// do sends a request and reads the complete response.
func (c *conn) do(request []byte) (status int, err error) {
	if _, err := c.net.Write(request); err != nil {
		return 0, err
	}
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < len("HTTP/1.1 200") {
		return 0, fmt.Errorf("not an HTTP response: %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, err
	}
	length := -1
	for {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, err
			}
		}
	}
	return status, c.read(length)
}

// read reads a body; without a length it is chunked.
func (c *conn) read(length int) error {
	content := io.LimitReader(c.reader, int64(length))
	if length < 0 {
		content = httputil.NewChunkedReader(c.reader)
	}
	var err error
	switch {
	case c.keep:
		c.body, err = io.ReadAll(content)
	case length >= 0:
		_, err = c.reader.Discard(length)
	default:
		_, err = io.Copy(io.Discard, content)
	}
	if err == nil && length < 0 {
		_, err = c.reader.ReadSlice('\n') // the empty line after the last chunk
	}
	return err
}

// expect is do with a required status.
func (c *conn) expect(status int, request []byte) error {
	got, err := c.do(request)
	if err == nil && got != status {
		line, _, _ := bytes.Cut(request, []byte("\r"))
		err = fmt.Errorf("%s: got status %d, want %d", line, got, status)
	}
	return err
}

// request returns the text of a request.
func request(method, path, key string, body []byte) []byte {
	head := fmt.Appendf(make([]byte, 0, 256+len(body)), "%s %s HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\n", method, path, key)
	if len(body) > 0 {
		head = append(head, "Content-Type: application/json\r\n"...)
	}
	return append(fmt.Appendf(head, "Content-Length: %d\r\n\r\n", len(body)), body...)
}
