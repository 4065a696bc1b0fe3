package ws_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/ws"
)

// handshake returns a client's handshake, with these headers (name, value, ...)
// replaced.
func handshake(method string, instead ...string) *http.Request {
	r := httptest.NewRequest(method, "/", nil)
	all := append([]string{
		"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==",
	}, instead...)
	for i := 0; i < len(all); i += 2 {
		r.Header.Set(all[i], all[i+1])
	}
	return r
}

func TestCheckHandshake_RefusesInvalidRequests(t *testing.T) {
	twoLines := handshake("GET", "Connection", "keep-alive")
	twoLines.Header.Add("Connection", "x , UPGRADE")
	for name, tc := range map[string]struct {
		request *http.Request
		refused string
	}{
		"a handshake":           {handshake("GET"), ""},
		"a list":                {handshake("GET", "Connection", "keep-alive, Upgrade"), ""},
		"two lines, big":        {twoLines, ""},
		"a key of another size": {handshake("GET", "Sec-WebSocket-Key", "abc"), ""},
		"a POST":                {handshake("POST"), "only WebSocket connections"},
		"no upgrade":            {handshake("GET", "Connection", "keep-alive"), "only WebSocket connections"},
		"part of a word":        {handshake("GET", "Connection", "upgrade-not"), "only WebSocket connections"},
		"another protocol":      {handshake("GET", "Upgrade", "h2c"), "only WebSocket connections"},
		"another version":       {handshake("GET", "Sec-WebSocket-Version", "8"), "version 13"},
		"no key":                {handshake("GET", "Sec-WebSocket-Key", ""), "no Sec-WebSocket-Key"},
	} {
		err := ws.CheckHandshake(tc.request)
		if tc.refused == "" && err != nil || tc.refused != "" && (!fault.Is(err, fault.Validation) || !strings.Contains(err.Error(), tc.refused)) {
			t.Errorf("%s: %v, want %q", name, err, tc.refused)
		}
	}
}

// upstream is a server that accepts one connection.
func upstream(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		serve(conn)
	}()
	t.Cleanup(func() { listener.Close(); <-done })
	return listener.Addr().String()
}

// relay relays each client to the server at the address, one word in each direction.
func relay(t *testing.T, address string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		up, err := ws.DialUpstream(r.Context(), nil, address, "/devtools/page/A", r.Header)
		if err != nil {
			t.Error(err)
			return
		}
		defer up.Conn.Close()
		w.Header().Set("X-Request-Id", "of the relay")
		client, err := up.TakeOver(w, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer client.Conn.Close()
		_, _ = up.Conn.Write(client.Early)
		_, _ = client.Conn.Write(up.Early)
		_, _ = io.Copy(client.Conn, up.Conn)
	}))
	t.Cleanup(server.Close)
	return server
}

func TestTakeOver_JoinsBothHandshakes(t *testing.T) {
	requests := make(chan *http.Request, 1)
	address := upstream(t, func(conn net.Conn) {
		reader := bufio.NewReader(conn)
		r, err := http.ReadRequest(reader)
		if err != nil {
			t.Error(err)
			return
		}
		requests <- r
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
			"Sec-WebSocket-Accept: of the server\r\nSec-WebSocket-Protocol: cdp\r\nServer: x\r\n\r\nearly bird")
		word := make([]byte, len("hello"))
		_, _ = io.ReadFull(reader, word)
		_, _ = conn.Write(append([]byte(", "), word...))
	})
	conn, err := net.Dial("tcp", relay(t, address).Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = io.WriteString(conn, "GET /?ct=secret HTTP/1.1\r\nHost: public.example\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: of the client\r\nSec-WebSocket-Protocol: cdp\r\nSec-WebSocket-Extensions: permessage-deflate\r\n"+
		"Origin: https://evil.example\r\nCookie: a=b\r\nAuthorization: Bearer x\r\nX-API-Key: y\r\n\r\nhello")
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(conn)
	answer, err := http.ReadResponse(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer.Header.Del("Date")
	want := http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Accept": {"of the server"},
		"Sec-Websocket-Protocol": {"cdp"}, "X-Request-Id": {"of the relay"},
	}
	if diff := cmp.Diff(want, answer.Header); diff != "" || answer.StatusCode != http.StatusSwitchingProtocols {
		t.Errorf("the client got %d%s", answer.StatusCode, diff)
	}
	said, err := io.ReadAll(out)
	if err != nil || string(said) != "early bird, hello" {
		t.Errorf("the client received %q, %v", said, err)
	}
	got := <-requests
	want = http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
		"Sec-Websocket-Key": {"of the client"}, "Sec-Websocket-Protocol": {"cdp"},
	}
	if diff := cmp.Diff(want, got.Header); diff != "" || got.Host != address || got.RequestURI != "/devtools/page/A" {
		t.Errorf("the server got %s %s%s", got.Host, got.RequestURI, diff)
	}
}

func TestDialUpstream_Errors(t *testing.T) {
	closed := make(chan error, 1)
	for name, tc := range map[string]struct {
		serve func(net.Conn)
		want  func(error) bool
	}{
		"a refusal": {func(conn net.Conn) {
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = io.WriteString(conn, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
		}, func(err error) bool {
			refused, ok := errors.AsType[*ws.RefusedError](err)
			return ok && refused.Status == http.StatusNotFound
		}},
		"silence": {func(conn net.Conn) {
			_, err := io.Copy(io.Discard, conn)
			closed <- err
		}, func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }},
		"headers without end": {func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n")
			for {
				if _, err := io.WriteString(conn, "X: "+strings.Repeat("x", 1000)+"\r\n"); err != nil {
					return
				}
			}
		}, func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			up, err := ws.DialUpstream(ctx, nil, upstream(t, tc.serve), "/", handshake("GET").Header)
			if up != nil || !tc.want(err) {
				t.Errorf("got %v, %v", up, err)
			}
		})
	}
	if err := <-closed; err != nil {
		t.Errorf("the silent server's connection: %v", err)
	}
	if _, err := ws.DialUpstream(t.Context(), nil, "127.0.0.1:1", "/", nil); err == nil {
		t.Error("DialUpstream returned a connection without an answer")
	}
}
