package devtools_test

import (
	"bytes"
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
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/devtools"
	"github.com/browser-svc/svc/worker/internal/ticket"
)

const (
	launch    = "019a5f3e-a1b3-7001-9c4f-6a6b7c8d9e06"
	other     = "019a5f3e-a1b3-7001-9c4f-6a6b7c8d9e07"
	unknown   = "019a5f3e-a1b3-7001-9c4f-6a6b7c8d9e08"
	workerKey = "the-worker-key"
)

// finder is a set of browsers that run.
type finder struct {
	mu      sync.Mutex
	targets map[string]devtools.Target
}

func (f *finder) Find(launchID string) (devtools.Target, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, ok := f.targets[launchID]
	return t, ok
}

func (f *finder) add(t devtools.Target) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.targets[t.LaunchID] = t
}

// logBook keeps everything that is logged.
type logBook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// worker is a server with the routes, and what its tests look at.
type worker struct {
	*devtools.Service
	address string // host:port
	finder  *finder
	clock   *clock.Fake
	tickets *ticket.Tickets
	log     *logBook
	server  *httptest.Server
}

// newWorker serves the routes; public is the configured address, by default
// the one it listens on.
func newWorker(t testing.TB, public string) *worker {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	w := &worker{
		address: server.Listener.Addr().String(), finder: &finder{targets: map[string]devtools.Target{}},
		clock: clock.NewFake(time.Now()), log: &logBook{}, server: server,
	}
	if public == "" {
		public = "http://" + w.address
	}
	base, err := url.Parse(public)
	if err != nil {
		t.Fatal(err)
	}
	w.tickets = ticket.New(w.clock)
	w.Service = devtools.New(devtools.Options{
		Browsers: w.finder, Tickets: w.tickets, Public: base,
		WorkerKey: func(key string) bool { return key == workerKey },
	})
	e := httpd.New(httpd.Options{Logger: slog.New(slog.NewJSONHandler(w.log, nil))})
	w.Register(e, "")
	server.Config.Handler = e
	server.Start()
	t.Cleanup(func() {
		w.Close()
		server.Close()
	})
	return w
}

func (w *worker) token(t testing.TB, launchID string, use ticket.Use) string {
	t.Helper()
	token, _, err := w.tickets.Mint(launchID, use)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (w *worker) path(rest string) string {
	return "http://" + w.address + "/browsers/" + launch + rest
}

func (w *worker) socket(rest string) string {
	return "ws" + strings.TrimPrefix(w.path(rest), "http")
}

// answer is what a test looks at of a response.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request with these headers (name, value, ...) and follows no
// redirect.
func do(t testing.TB, method, address string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, nil)
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
		return answer{status: res.StatusCode, header: res.Header}
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(body)}
}

// fakeChromium is a DevTools server whose sockets echo, and which remembers
// what it was asked.
type fakeChromium struct {
	server *httptest.Server
	port   int
	done   chan struct{}
	ctx    context.Context
	hangUp context.CancelFunc // closes the sockets

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

func (f *fakeChromium) target(launchID string) devtools.Target {
	return devtools.Target{LaunchID: launchID, Name: "Checkout", DebugPort: f.port, Done: f.done}
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
		for {
			kind, message, err := conn.Read(f.ctx)
			if err != nil || conn.Write(f.ctx, kind, message) != nil {
				return
			}
		}
	}
}

// newFakeWorker is a worker with a fake browser as launch.
func newFakeWorker(t testing.TB, public string) (*worker, *fakeChromium) {
	t.Helper()
	f := newFakeChromium(t)
	w := newWorker(t, public)
	w.finder.add(f.target(launch))
	return w, f
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: did not happen", what)
}
