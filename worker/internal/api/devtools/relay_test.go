package devtools_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
	"github.com/browser-svc/svc/worker/internal/session/activity"
)

// dial opens a relayed socket with the token in the query.
func (w *testServer) dial(t testing.TB, rest string) *ws.Conn {
	t.Helper()
	conn, err := ws.Dial(t.Context(), w.socket(rest)+"?ct="+w.token(t, ticket.Control), nil, ws.Options{ReadLimit: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.CloseNow() })
	return conn
}

func echoed(t testing.TB, conn *ws.Conn, message []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := conn.Write(ctx, ws.Binary, message); err != nil {
		t.Fatal(err)
	}
	_, got, err := conn.Read(ctx)
	if err != nil || !bytes.Equal(got, message) {
		t.Fatalf("got %d of %d bytes back: %v", len(got), len(message), err)
	}
}

// assertCloses fails unless the connection ends within a timeout.
func assertCloses(t *testing.T, conn *ws.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, _, err := conn.Read(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("the connection did not end: %v", err)
	}
}

func TestRelay_PassesMessagesOfAnySize(t *testing.T) {
	w, _ := newFakeTestServer(t, "")
	conn := w.dial(t, "/devtools/page/a")
	for _, size := range []int{0, 1, 125, 126, 65535, 65536, 1 << 20, 100 << 20} {
		message := make([]byte, size)
		_, _ = rand.Read(message)
		echoed(t, conn, message)
	}
	conn.CloseNow()
	testenv.Eventually(t, "the relay ended", func() bool { return w.OpenTasks() == 0 })
}

func TestRelay_HidesClientFromChromium(t *testing.T) {
	w, f := newFakeTestServer(t, "")
	r := append([]string{
		"X-Svc-Token", w.token(t, ticket.Control), "X-API-Key", workerKey, "Cookie", "a=b", "Authorization", "Bearer x",
		"Origin", "https://evil.example", "X-Forwarded-For", "203.0.113.9", "User-Agent", "client",
		"Sec-WebSocket-Extensions", "permessage-deflate", "Sec-WebSocket-Protocol", "cdp",
	}, upgrade...)
	if got := do(t, "GET", w.path("/devtools/page/ABC?ct=x&other=y"), r...); got.status != 101 {
		t.Fatalf("%d %s", got.status, got.body)
	} else if got.header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" || got.header.Get("Sec-WebSocket-Extensions") != "" {
		t.Errorf("answered %v", got.header)
	}
	want := http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
		"Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}, "Sec-Websocket-Protocol": {"cdp"},
	}
	got := f.request()
	if diff := cmp.Diff(want, got.Header); diff != "" || got.Host != fmt.Sprintf("127.0.0.1:%d", f.port) || got.RequestURI != "/devtools/page/ABC" {
		t.Errorf("%s %s%s", got.Host, got.RequestURI, diff)
	}
}

func TestRelay_RefusesInvalidHandshake(t *testing.T) {
	w, f := newFakeTestServer(t, "")
	for name, headers := range map[string][]string{
		"a plain request":  nil,
		"no upgrade":       upgrade[:2],
		"another protocol": {"Connection", "Upgrade", "Upgrade", "h2c"},
		"another version":  {"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "8"},
		"no key":           upgrade[:6],
	} {
		got := do(t, "GET", w.path("/devtools/page/a"), append([]string{"X-API-Key", workerKey}, headers...)...)
		if got.status != 400 || !strings.Contains(got.body, "VALIDATION_ERROR") {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	if f.request() != nil {
		t.Error("Chromium got a request")
	}
}

func TestRelay_TranslatesChromiumRefusal(t *testing.T) {
	w, _ := newFakeTestServer(t, "")
	dead := make(chan struct{})
	closedPort := func() int {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		return ln.Addr().(*net.TCPAddr).Port
	}()
	w.finder.add(access.Browser{LaunchID: other, DebugPort: closedPort, DevTools: true, Activity: activity.New(w.clock), Done: dead})
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		launch + "/devtools/browser/gone":   {404, "no such target"},
		launch + "/devtools/page/gone":      {404, "no such target"},
		launch + "/devtools/page/odd":       {502, "EXTERNAL_SERVICE_ERROR"},
		launch + "/devtools/page/a%20b":     {404, "no such target"},
		launch + "/devtools/page/%0d%0aX:y": {404, "no such target"},
		launch + "/devtools/page/..":        {404, "no such target"},
		launch + "/devtools/browser/a/b":    {404, "no such target"},
		other + "/devtools/page/a":          {502, "EXTERNAL_SERVICE_ERROR"},
		other + "/screenshot":               {502, "EXTERNAL_SERVICE_ERROR"},
		other + "/devtools/":                {502, "EXTERNAL_SERVICE_ERROR"},
		other + "/devtools/inspector.html":  {502, "EXTERNAL_SERVICE_ERROR"},
	} {
		headers := []string{"X-API-Key", workerKey}
		if !strings.HasPrefix(path, other) || strings.Contains(path, "/page/") {
			headers = append(headers, upgrade...)
		}
		got := do(t, "GET", "http://"+w.address+"/browsers/"+path, headers...)
		if got.status != want.status || !strings.Contains(got.body, want.body) {
			t.Errorf("%s: %d %s, want %d %s", path, got.status, got.body, want.status, want.body)
		}
	}
}

func TestClose_InterruptsPendingDial(t *testing.T) {
	w := newTestServer(t, "")
	ln, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	w.finder.add(access.Browser{LaunchID: launch, DebugPort: ln.Addr().(*net.TCPAddr).Port, DevTools: true, Activity: activity.New(w.clock), Done: make(chan struct{})})
	answered := make(chan response, 1)
	go func() {
		answered <- do(t, "GET", w.path("/devtools/page/a"), append([]string{"X-API-Key", workerKey}, upgrade...)...)
	}()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stopping := time.Now()
	w.Close()
	if took := time.Since(stopping); took > 3*time.Second {
		t.Errorf("Close took %s", took)
	}
	if got := <-answered; got.status != 503 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// dialWithEarlyFrame sends a frame together with the handshake and returns the raw
// connection.
func (w *testServer) dialWithEarlyFrame(t *testing.T, rest, extra string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", w.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	head := "GET /browsers/" + launch + rest + " HTTP/1.1\r\nHost: x\r\nX-API-Key: " + workerKey + "\r\n"
	for i := 0; i < len(upgrade); i += 2 {
		head += upgrade[i] + ": " + upgrade[i+1] + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"+extra); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

func TestRelay_KeepsEarlyFrames(t *testing.T) {
	w := newTestServer(t, "")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	w.finder.add(access.Browser{LaunchID: launch, DebugPort: ln.Addr().(*net.TCPAddr).Port, DevTools: true, Activity: activity.New(w.clock), Done: make(chan struct{})})
	fromBrowser := []string{string(wsframe.FromServer(wsframe.Text, []byte("early bird"))), string(wsframe.FromServer(wsframe.Text, []byte("last word")))}
	fromClient := []string{string(wsframe.FromClient(wsframe.Text, []byte("hello"))), string(wsframe.FromClient(wsframe.Text, []byte("goodbye")))}
	toBrowser := make(chan string, 1)
	go func() { // a browser that sends at once, then reads until the client ends
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		r := bufio.NewReader(conn)
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"+fromBrowser[0])
		received, _ := io.ReadAll(r)
		_, _ = io.WriteString(conn, fromBrowser[1])
		toBrowser <- string(received)
	}()
	conn, r := w.dialWithEarlyFrame(t, "/devtools/page/a", fromClient[0])
	if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("X-Request-Id") == "" {
		t.Fatalf("%v %v", res, err)
	}
	_, _ = io.WriteString(conn, fromClient[1])
	_ = conn.(*net.TCPConn).CloseWrite()
	got, err := io.ReadAll(r)
	if err != nil || string(got) != fromBrowser[0]+fromBrowser[1] {
		t.Errorf("the client received %q, %v", got, err)
	}
	if received := <-toBrowser; received != fromClient[0]+fromClient[1] {
		t.Errorf("the browser received %q", received)
	}
}

func TestRelay_EndsWithEitherSideBrowserOrWorker(t *testing.T) {
	for name, end := range map[string]func(*testServer, *fakeChromium, []*ws.Conn){
		"the clients": func(_ *testServer, _ *fakeChromium, conns []*ws.Conn) {
			for _, c := range conns {
				c.CloseNow()
			}
		},
		"the browser's side": func(_ *testServer, f *fakeChromium, _ []*ws.Conn) { f.hangUp() },
		"the browser":        func(_ *testServer, f *fakeChromium, _ []*ws.Conn) { close(f.done) },
		"the worker":         func(w *testServer, _ *fakeChromium, _ []*ws.Conn) { w.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			w, f := newFakeTestServer(t, "")
			before := runtime.NumGoroutine()
			var conns []*ws.Conn
			for range 8 {
				conn := w.dial(t, "/devtools/page/a")
				echoed(t, conn, []byte("hello"))
				conns = append(conns, conn)
			}
			if open := w.OpenTasks(); open != 8 {
				t.Fatalf("got %d open connections", open)
			}
			end(w, f, conns)
			for _, conn := range conns {
				assertCloses(t, conn)
			}
			testenv.Eventually(t, "all relays ended", func() bool { return w.OpenTasks() == 0 })
			http.DefaultTransport.(*http.Transport).CloseIdleConnections()
			testenv.Eventually(t, "all goroutines ended", func() bool { return runtime.NumGoroutine() <= before })
		})
	}
}

func TestClose_RefusesNewConnections(t *testing.T) {
	w, _ := newFakeTestServer(t, "")
	w.Close()
	_, err := ws.Dial(t.Context(), w.socket("/devtools/page/a"), http.Header{"X-Api-Key": {workerKey}}, ws.Options{})
	if refused, ok := errors.AsType[*ws.RefusedError](err); !ok || refused.Status != 503 {
		t.Errorf("%v", err)
	}
	if got := do(t, "GET", w.path("/screenshot"), "X-API-Key", workerKey); got.status != 503 {
		t.Errorf("screenshot: %d", got.status)
	}
}

func TestRelay_StalledClientBlocksNobody(t *testing.T) {
	w, f := newFakeTestServer(t, "")
	stalled := w.dial(t, "/devtools/page/a")
	if err := stalled.Write(t.Context(), ws.Binary, make([]byte, 64<<20)); err != nil { // exceeds all buffers
		t.Fatal(err)
	}
	lively := w.dial(t, "/devtools/page/b")
	echoed(t, lively, make([]byte, 1<<20))
	if open := w.OpenTasks(); open != 2 {
		t.Errorf("got %d open connections", open)
	}
	close(f.done)
	testenv.Eventually(t, "all relays ended", func() bool { return w.OpenTasks() == 0 })
}
