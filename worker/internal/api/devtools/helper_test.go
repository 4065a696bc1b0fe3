package devtools_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4/middleware"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/api/devtools"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
	"github.com/browser-svc/svc/worker/internal/cdp/resume"
	"github.com/browser-svc/svc/worker/internal/session/activity"
)

const (
	launch    = "019a5f3e-a1b3-7001-9c4f-6a6b7c8d9e06"
	other     = "019a5f3e-a1b3-7001-9c4f-6a6b7c8d9e07"
	unknown   = "019a5f3e-a1b3-7001-9c4f-6a6b7c8d9e08"
	workerKey = "the-worker-key"
)

// upgrade contains the headers of a WebSocket handshake.
var upgrade = []string{
	"Connection", "keep-alive, Upgrade", "Upgrade", "websocket",
	"Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==",
}

// finder is a set of running browsers.
type finder struct {
	mu       sync.Mutex
	browsers map[string]access.Browser
}

func (f *finder) Find(launchID string) (access.Browser, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, ok := f.browsers[launchID]
	return b, ok
}

func (f *finder) add(b access.Browser) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.browsers[b.LaunchID] = b
}

// testServer is a server with the routes of the package.
type testServer struct {
	*devtools.Service
	address string // host:port
	finder  *finder
	clock   *clock.Fake
	tickets *ticket.Tickets
	log     *testenv.Log
	ended   chan string // ids of launches that a client has ended
}

// newTestServer serves the routes. public is the configured URL, by default the
// address that it listens on.
func newTestServer(t testing.TB, public string) *testServer {
	t.Helper()
	return newTestServerWithResume(t, public, resume.Options{ResumeTimeout: 30 * time.Second, Buffer: 32 << 20})
}

// newTestServerWithResume is newTestServer with options for resumable connections.
func newTestServerWithResume(t testing.TB, public string, options resume.Options) *testServer {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	w := &testServer{
		address: server.Listener.Addr().String(), finder: &finder{browsers: map[string]access.Browser{}},
		clock: clock.NewFake(time.Now()), log: &testenv.Log{}, ended: make(chan string, 1),
	}
	if public == "" {
		public = "http://" + w.address
	}
	base, err := url.Parse(public)
	if err != nil {
		t.Fatal(err)
	}
	w.tickets = ticket.New(w.clock)
	w.tickets.Begin(launch)
	address := access.NewAddress(base)
	w.Service = devtools.New(devtools.Options{
		Links: access.Links{Address: address, Tokens: w.tickets}, Tickets: w.tickets, Resume: options,
		End: func(_ context.Context, launchID string) error { w.ended <- launchID; return nil },
	})
	e := httpd.New(httpd.Options{Logger: slog.New(slog.NewJSONHandler(w.log, nil))})
	if strings.Contains(public, "/w/") { // as behind a load balancer that keeps the path
		e.Pre(middleware.Rewrite(map[string]string{base.Path + "/*": "/$1"}))
	}
	guard := documentGuard(t)
	e.Use(guard.Middleware())
	access.New(access.Options{
		Browsers: w.finder, Tickets: w.tickets, Address: address, Check: guard.Inspect,
		WorkerKey: func(key string) bool { return key == workerKey },
	}).Register(e, w.Routes()...)
	server.Config.Handler = e
	server.Start()
	t.Cleanup(func() {
		w.Close()
		server.Close()
	})
	return w
}

// documentGuard returns a guard that validates requests against the worker's API document.
func documentGuard(t testing.TB) *oapi.Guard {
	t.Helper()
	document := contracttest.Load(t, "worker.yaml")
	nobody := map[string]oapi.Authenticator{}
	for name := range document.T().Components.SecuritySchemes {
		nobody[name] = func(r *http.Request) (context.Context, error) { return r.Context(), nil }
	}
	guard, err := oapi.NewGuard(document.Document, oapi.Options{Authenticators: nobody})
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

func (w *testServer) token(t testing.TB, use ticket.Use) string {
	t.Helper()
	token, _, err := w.tickets.Mint(launch, use)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (w *testServer) path(rest string) string {
	return "http://" + w.address + "/browsers/" + launch + rest
}

func (w *testServer) socket(rest string) string {
	return "ws" + strings.TrimPrefix(w.path(rest), "http")
}

// response is a response, as far as tests check it.
type response struct {
	status int
	header http.Header
	body   string
}

// do sends a request with headers (name, value, ...) and does not follow redirects.
func do(t testing.TB, method, address string, headers ...string) response {
	t.Helper()
	return send(t, method, address, "", headers...)
}

// send is do with a JSON body.
func send(t testing.TB, method, address, body string, headers ...string) response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if body != "" {
		headers = append(headers[:len(headers):len(headers)], "Content-Type", "application/json")
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] != "" {
			r.Header.Add(headers[i], headers[i+1])
		}
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusSwitchingProtocols {
		return response{status: res.StatusCode, header: res.Header}
	}
	said, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{res.StatusCode, res.Header, string(said)}
}

// fakeChromium is a DevTools server whose sockets echo. It records the requests that
// it gets.
type fakeChromium struct {
	server *httptest.Server
	port   int
	done   chan struct{}
	ctx    context.Context
	hangUp context.CancelFunc // closes the sockets

	flooded atomic.Int64 // messages

	mu   sync.Mutex
	last *http.Request
}

func newFakeChromium(t testing.TB) *fakeChromium {
	t.Helper()
	f := &fakeChromium{done: make(chan struct{})}
	f.ctx, f.hangUp = context.WithCancel(context.Background())
	t.Cleanup(f.hangUp)
	f.server = httptest.NewServer(f)
	t.Cleanup(f.server.Close)
	f.port = f.server.Listener.Addr().(*net.TCPAddr).Port
	return f
}

// browser returns the fake as the browser of launchID.
func (f *fakeChromium) browser(launchID string, clock clock.Clock) access.Browser {
	return access.Browser{
		LaunchID: launchID, DebugPort: f.port, DebugPath: "/devtools/browser/b-1", DevTools: true,
		Activity: activity.New(clock), Done: f.done,
	}
}

func (f *fakeChromium) request() *http.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

func (f *fakeChromium) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.last = r
	f.mu.Unlock()
	switch r.URL.Path {
	case "/json/list":
		fmt.Fprint(w, `[{"type":"browser_ui","id":"UI"},{"type":"page","id":"P1"},{"type":"page","id":"P2"}]`)
	case "/devtools/inspector.html":
		w.Header().Set("Set-Cookie", "chromium=1")
		fmt.Fprint(w, "<!doctype html>front end")
	case "/devtools/missing.js":
		w.Header().Set("Content-Type", "text/javascript")
	case "/devtools/browser/gone":
		http.NotFound(w, r)
	case "/devtools/page/gone":
		http.Error(w, "No such target id: gone", http.StatusInternalServerError)
	case "/devtools/page/odd":
		w.WriteHeader(http.StatusTeapot)
	default:
		conn, err := ws.Accept(w, r, ws.Options{ReadLimit: -1})
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		defer conn.CloseNow()
		if r.URL.Path == "/devtools/page/flood" {
			f.flood(conn)
			return
		}
		for {
			kind, message, err := conn.Read(f.ctx)
			if err != nil || conn.Write(f.ctx, kind, message) != nil {
				return
			}
		}
	}
}

// flood sends numbered messages of 64 KiB until the connection ends.
func (f *fakeChromium) flood(conn *ws.Conn) {
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	go func() { // until the peer disconnects
		defer cancel()
		_, _, _ = conn.Read(ctx)
	}()
	padding := strings.Repeat("x", 64<<10)
	for i := 1; conn.Write(ctx, ws.Text, fmt.Appendf(nil, `{"number":%d,"padding":%q}`, i, padding)) == nil; i++ {
		f.flooded.Store(int64(i))
	}
}

// newFakeTestServer returns a server with a fake browser as launch.
func newFakeTestServer(t testing.TB, public string) (*testServer, *fakeChromium) {
	t.Helper()
	f := newFakeChromium(t)
	w := newTestServer(t, public)
	w.finder.add(f.browser(launch, w.clock))
	return w, f
}

// newFakeTestServerWithResume is newFakeTestServer with options for resumable
// connections.
func newFakeTestServerWithResume(t testing.TB, options resume.Options) (*testServer, *fakeChromium) {
	t.Helper()
	f := newFakeChromium(t)
	w := newTestServerWithResume(t, "", options)
	w.finder.add(f.browser(launch, w.clock))
	return w, f
}

// browser returns the browser of launch.
func (w *testServer) browser(t testing.TB) access.Browser {
	t.Helper()
	b, ok := w.finder.Find(launch)
	if !ok {
		t.Fatal("found no browser")
	}
	return b
}
