package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// conn is a persistent HTTP/1.1 connection with minimal overhead, because the client
// shares the cores with the server.
type conn struct {
	net  net.Conn
	in   *bufio.Reader
	body []byte // of the last answer, if kept
	keep bool
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
		all = append(all, &conn{net: c, in: bufio.NewReader(c)})
	}
	return all, func() { stop(); closeAll() }, nil
}

// do sends a request and reads the complete response.
func (c *conn) do(request []byte) (status int, err error) {
	if _, err := c.net.Write(request); err != nil {
		return 0, err
	}
	line, err := c.in.ReadSlice('\n')
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
		line, err := c.in.ReadSlice('\n')
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
	content := io.LimitReader(c.in, int64(length))
	if length < 0 {
		content = httputil.NewChunkedReader(c.in)
	}
	var err error
	switch {
	case c.keep:
		c.body, err = io.ReadAll(content)
	case length >= 0:
		_, err = c.in.Discard(length)
	default:
		_, err = io.Copy(io.Discard, content)
	}
	if err == nil && length < 0 {
		_, err = c.in.ReadSlice('\n') // the empty line after the last chunk
	}
	return err
}

// expect is do with a required status.
func (c *conn) expect(status int, request []byte) error {
	got, err := c.do(request)
	if err == nil && got != status {
		err = fmt.Errorf("got status %d, want %d", got, status)
	}
	return err
}

// post returns the text of a request.
func post(path, key string, body []byte) []byte {
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		path, key, len(body))
	return append([]byte(head), body...)
}

// requestTemplate is an authorize request whose session id is replaced for each use.
type requestTemplate struct {
	request []byte
	session int // offset of the session id in the request
}

func (t tenant) requestTemplate() requestTemplate {
	const before = `"sessionId":"`
	body := fmt.Sprintf(`{"machineId":"worker-1","bootId":%q,%s%s","profileId":%q}`, t.Org, before, uuid.Nil, t.Profile)
	request := post("/v1/license/authorize", t.Key, []byte(body))
	return requestTemplate{request: request, session: bytes.Index(request, []byte(before)) + len(before)}
}

// next returns the request for a new session.
func (a requestTemplate) next() []byte {
	id := newID()
	encodeID(a.request[a.session:], id)
	return a.request
}

// encodeID writes the 36 characters of an id.
func encodeID(to []byte, id uuid.UUID) {
	hex.Encode(to, id[:4])
	hex.Encode(to[9:], id[4:6])
	hex.Encode(to[14:], id[6:8])
	hex.Encode(to[19:], id[8:10])
	hex.Encode(to[24:], id[10:])
	to[8], to[13], to[18], to[23] = '-', '-', '-', '-'
}

// requestSide is a side whose clients send authorize requests to a server and expect
// this status.
func (b *bench) requestSide(ctx context.Context, server *child, t tenant, clients, status int, turn time.Duration) (side, func(), error) {
	conns, closeAll, err := connect(ctx, server.address, clients)
	if err != nil {
		return nil, nil, err
	}
	askers := make([]requestTemplate, clients)
	for i := range askers {
		askers[i] = t.requestTemplate()
	}
	return func(ctx context.Context) (load, error) {
		return runClients(ctx, clients, turn, func(_ context.Context, client int) error {
			if err := conns[client].expect(status, askers[client].next()); err != nil {
				return fmt.Errorf("%s: %w", server.name, err)
			}
			return nil
		})
	}, closeAll, nil
}
