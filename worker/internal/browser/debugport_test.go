package browser

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

// failingListener fails its first calls of Accept with EMFILE.
type failingListener struct {
	net.Listener
	failures int
}

func (s *failingListener) Accept() (net.Conn, error) {
	if s.failures > 0 {
		s.failures--
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return s.Listener.Accept()
}

// startDebugPort starts a debugging port in front of a server that counts its
// requests. It accepts the given users or, without any, the current one.
func startDebugPort(t *testing.T, users ...int) (d *debugPortListener, requests *atomic.Int64) {
	t.Helper()
	requests = &atomic.Int64{}
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.Header.Get("Upgrade") == "" {
			_, _ = io.WriteString(w, r.Method+" "+r.Host+" "+r.RequestURI)
			return
		}
		conn, buffer, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n")
		_, _ = io.Copy(conn, buffer)
	}))
	t.Cleanup(inside.Close)
	dial := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp4", inside.Listener.Addr().String())
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if len(users) == 0 {
		users = []int{os.Geteuid()}
	}
	d = newDebugPortListener(&failingListener{listener, 2}, users, dial, nil, slog.New(slog.DiscardHandler))
	d.serve()
	t.Cleanup(d.close)
	return d, requests
}

func TestDebugPort_ReportsItsClients(t *testing.T) {
	d, _ := startDebugPort(t)
	var clients, sockets atomic.Int64
	watch := func(conn net.Conn) (stop func()) {
		clients.Add(1)
		if conn != nil {
			sockets.Add(1)
		}
		return func() { clients.Add(-1) }
	}
	d.watch.Store(new(watch))
	send := func(headers string) net.Conn {
		t.Helper()
		conn, answer := dialDebugPort(t, d)
		if _, err := io.WriteString(conn, "GET /json/version HTTP/1.1\r\nHost: "+d.listener.Addr().String()+"\r\n"+headers+"\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := answer.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	send("Origin: http://page.example\r\n")
	if clients.Load() != 0 || sockets.Load() != 0 {
		t.Error("a refused request is a client")
	}
	conn := send("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n")
	testenv.Eventually(t, "a client", func() bool { return clients.Load() == 1 && sockets.Load() == 1 })
	_ = conn.Close()
	testenv.Eventually(t, "no client", func() bool { return clients.Load() == 0 })
}

// dialDebugPort connects to a debugging port.
func dialDebugPort(t *testing.T, d *debugPortListener) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp4", d.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	return conn, bufio.NewReader(conn)
}

// send sends a request head and reads the answer.
func send(t *testing.T, conn net.Conn, r *bufio.Reader, head string) (status int, body string) {
	t.Helper()
	if _, err := io.WriteString(conn, strings.ReplaceAll(head, "\n", "\r\n")+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode == http.StatusSwitchingProtocols {
		return answer.StatusCode, ""
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

const handshake = "GET /devtools/browser/x HTTP/1.1\nHost: 127.0.0.1:1\nConnection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="

func TestDebugPort_AcceptsAfterLackOfDescriptors(t *testing.T) {
	d, requests := startDebugPort(t) // its listener fails twice
	conn, r := dialDebugPort(t, d)
	if status, _ := send(t, conn, r, "GET /json/version HTTP/1.1\nHost: 127.0.0.1:1"); status != http.StatusOK || requests.Load() != 1 {
		t.Errorf("answered %d, %d requests", status, requests.Load())
	}
}

func TestDebugPort_PassesRequestsWithoutOrigin(t *testing.T) {
	d, _ := startDebugPort(t)
	conn, r := dialDebugPort(t, d)
	for range 2 { // one connection
		const target = "/json/new?http://site.test/?a=%zz;b&c"
		if status, body := send(t, conn, r, "PUT "+target+" HTTP/1.1\nHost: localhost:7"); status != http.StatusOK || body != "PUT localhost:7 "+target {
			t.Errorf("answered %d %q", status, body)
		}
	}
	if status, _ := send(t, conn, r, handshake); status != http.StatusSwitchingProtocols {
		t.Fatalf("a WebSocket got status %d", status)
	}
	frame := wsframe.FromClient(wsframe.Text, []byte("frame"))
	if _, err := conn.Write(frame); err != nil {
		t.Fatal(err)
	}
	echo := make([]byte, len(frame))
	if _, err := io.ReadFull(r, echo); err != nil || !bytes.Equal(echo, frame) {
		t.Errorf("the WebSocket returned %q (%v)", echo, err)
	}
}

func TestDebugPort_RefusesOrigin(t *testing.T) {
	d, requests := startDebugPort(t)
	for name, head := range map[string]string{
		"a WebSocket of its own origin": handshake + "\nOrigin: http://127.0.0.1:1",
		"a WebSocket of another":        handshake + "\norigin: https://evil.example",
		"an empty one":                  handshake + "\nOrigin:",
		"a request":                     "GET /json/version HTTP/1.1\nHost: 127.0.0.1:1\nORIGIN: null",
		"a new tab":                     "PUT /json/new?about:blank HTTP/1.1\nHost: 127.0.0.1:1\nOrigin: http://127.0.0.1:1",
	} {
		conn, r := dialDebugPort(t, d)
		if status, body := send(t, conn, r, head); status != http.StatusForbidden || !strings.Contains(body, "Origin") {
			t.Errorf("%s: answered %d %q", name, status, body)
		}
	}
	if requests.Load() > 0 {
		t.Errorf("%d requests reached the browser", requests.Load())
	}
	conn, r := dialDebugPort(t, d)
	if status, _ := send(t, conn, r, "GET /json/version HTTP/1.1\nHost: 127.0.0.1:1"); status != http.StatusOK {
		t.Errorf("a request without one: answered %d", status)
	}
	if status, _ := send(t, conn, r, handshake+"\nOrigin: http://127.0.0.1:1"); status != http.StatusForbidden || requests.Load() != 1 {
		t.Errorf("a later request on a connection: answered %d, %d requests", status, requests.Load())
	}
}

func TestDebugPort_RefusesUnknownPeer(t *testing.T) {
	d, requests := startDebugPort(t)
	d.userOf = func(net.Conn) (int, error) { return -1, errors.New("not in the table") }
	conn, r := dialDebugPort(t, d)
	if status, body := send(t, conn, r, "GET /json/version HTTP/1.1\nHost: 127.0.0.1:1"); status != http.StatusForbidden || !strings.Contains(body, "DEBUG_PORT_USERS") || requests.Load() > 0 {
		t.Errorf("answered %d %q, %d requests", status, body, requests.Load())
	}
}

func TestDebugPort_RefusesOtherUsers(t *testing.T) {
	d, requests := startDebugPort(t, os.Geteuid()+1)
	conn, r := dialDebugPort(t, d)
	if status, _ := send(t, conn, r, handshake); status != http.StatusForbidden || requests.Load() > 0 {
		t.Errorf("answered %d, %d requests", status, requests.Load())
	}
}

// TestDebugPort_EndsAfterClient checks that a browser that does not close its side holds no connection of a client that
// has closed its own.
func TestDebugPort_EndsAfterClient(t *testing.T) {
	t.Parallel()
	inside, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inside.Close() })
	dial := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp4", inside.Addr().String())
	}
	go func() {
		conn, err := inside.Accept()
		if err != nil {
			return
		}
		t.Cleanup(func() { conn.Close() })
		_, _ = http.ReadRequest(bufio.NewReader(conn))
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n")
	}()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := newDebugPortListener(listener, []int{os.Geteuid()}, dial, nil, slog.New(slog.DiscardHandler))
	d.serve()
	t.Cleanup(d.close)
	conn, r := dialDebugPort(t, d)
	if status, _ := send(t, conn, r, handshake); status != http.StatusSwitchingProtocols {
		t.Fatalf("a WebSocket got status %d", status)
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("the client got %q, %v", rest, err)
	}
}
