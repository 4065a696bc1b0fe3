package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
	"github.com/browser-svc/svc/worker/internal/cdp/intercept"
	"github.com/browser-svc/svc/worker/internal/cdp/tap"
	"github.com/browser-svc/svc/worker/internal/host/peeruser"
)

const (
	debugHeaderTimeout = 30 * time.Second // for a request's header
	debugIdleTimeout   = 5 * time.Minute  // of a connection without a request
	debugHeaderLimit   = 64 << 10         // of a request's header, in bytes
	maxTarget          = 1 << 20          // of the description of a page, in bytes

	pagePath = "/devtools/page/" // of the WebSocket of a page
)

// debugPortListener is the debugging port, on the host's loopback, of a browser
// with its own network. It accepts programs of some users only, and no request
// with an Origin header: pages send it, and Chromium itself accepts the origin
// of its own server. Another one, without a check of users, listens in the sandbox of
// a WebDriver server.
type debugPortListener struct {
	listener  net.Listener
	server    *http.Server
	httpProxy *httputil.ReverseProxy                  // for requests other than WebSockets
	dial      func(context.Context) (net.Conn, error) // to the browser's server
	calls     *intercept.Calls
	users     []int                               // users that may connect
	userOf    func(net.Conn) (uid int, err error) // user of the peer; nil: every user may connect
	observed  bool                                // the commands of its clients are in a trace: not chromedriver's, but those of its clients are
	log       *slog.Logger
	warnOnce  sync.Once // logs the first refusal as a warning
	watch     atomic.Pointer[func(net.Conn) (stop func())]
	ctx       context.Context // ends with close
	cancel    context.CancelFunc

	mu     sync.Mutex // orders requests against close
	closed bool
	work   sync.WaitGroup
}

// listenDebugPort listens on a port, or on a free one for 0.
func listenDebugPort(port int) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("debugging port: %w", err)
	}
	return listener, nil
}

func newDebugPortListener(listener net.Listener, users []int, dial func(context.Context) (net.Conn, error), calls *intercept.Calls, log *slog.Logger) *debugPortListener {
	d := &debugPortListener{listener: listener, users: users, userOf: peeruser.Of, dial: dial, calls: calls, log: log}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	quiet := slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	d.httpProxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", r.In.Host
			r.Out.URL.RawQuery = r.In.URL.RawQuery // /json/new has an address there, not parameters
			r.Out.Host = r.In.Host
		},
		Transport: &http.Transport{
			DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
			DisableKeepAlives:  true, // connections into the browser's network are limited
			DisableCompression: true,
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { d.writeError(w, err) },
		ErrorLog:     quiet,
	}
	d.server = &http.Server{
		Handler: d, ReadHeaderTimeout: debugHeaderTimeout, IdleTimeout: debugIdleTimeout, MaxHeaderBytes: debugHeaderLimit,
		DisableGeneralOptionsHandler: true, ErrorLog: quiet,
		BaseContext: func(net.Listener) context.Context { return d.ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, refusalKey{}, d.authorize(c))
		},
	}
	return d
}

func (d *debugPortListener) serve() {
	d.work.Go(func() {
		if err := d.server.Serve(d.listener); !errors.Is(err, http.ErrServerClosed) {
			d.log.Error("debugging port stopped listening", "error", err)
		}
	})
}

func (d *debugPortListener) port() int { return d.listener.Addr().(*net.TCPAddr).Port }

// refusalKey is the context key for why a connection is refused.
type refusalKey struct{}

// authorize returns why a peer may not connect; "" if it may.
func (d *debugPortListener) authorize(c net.Conn) (refusal string) {
	if d.userOf == nil {
		return ""
	}
	uid, err := d.userOf(c)
	if err == nil && slices.Contains(d.users, uid) {
		return ""
	}
	d.warnOnce.Do(func() {
		d.log.Warn("debugging port refused a connection of another user; add allowed users to DEBUG_PORT_USERS", "uid", uid, "error", err)
	})
	return "Only the worker's user, root and DEBUG_PORT_USERS may connect to the debugging port."
}

// ServeHTTP implements http.Handler. It authorizes every request of a
// connection.
func (d *debugPortListener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !d.beginRequest() {
		w.Header().Set("Connection", "close")
		http.Error(w, "The browser has ended.", http.StatusServiceUnavailable)
		return
	}
	defer d.work.Done()
	refusal, _ := r.Context().Value(refusalKey{}).(string)
	if _, ofPage := r.Header["Origin"]; ofPage && refusal == "" {
		refusal = "The debugging port refuses requests with an Origin header, which pages send: remove the header."
	}
	switch {
	case refusal != "":
		w.Header().Set("Connection", "close")
		http.Error(w, refusal, http.StatusForbidden)
		return
	case r.Header.Get("Upgrade") != "":
		d.upgrade(w, r)
		return
	}
	defer d.watchClient(nil)()
	switch {
	case strings.TrimSuffix(r.URL.Path, "/") == "/json/new":
		d.openPage(w, r)
	default:
		d.httpProxy.ServeHTTP(w, r)
	}
}

// openPage opens a tab. If pages have settings, it is blank until it has them.
func (d *debugPortListener) openPage(w http.ResponseWriter, r *http.Request) {
	if text := d.calls.RefusePage(r.URL.RawQuery); text != "" {
		http.Error(w, text, http.StatusForbidden)
		return
	}
	page, blank := d.calls.NewPage(r.URL.RawQuery)
	if !blank {
		d.httpProxy.ServeHTTP(w, r)
		return
	}
	r = r.Clone(r.Context())
	r.URL.RawQuery = "about:blank"
	proxy := *d.httpProxy
	proxy.ModifyResponse = func(answer *http.Response) error {
		if answer.StatusCode != http.StatusOK {
			return nil
		}
		defer answer.Body.Close()
		var target map[string]any
		if err := json.NewDecoder(http.MaxBytesReader(nil, answer.Body, maxTarget)).Decode(&target); err != nil {
			return fmt.Errorf("open a page: %w", err)
		}
		id, _ := target["id"].(string)
		d.calls.Navigate(id, page)
		target["url"] = page
		text, err := json.Marshal(target)
		if err != nil {
			return fmt.Errorf("open a page: %w", err)
		}
		answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		answer.Header.Set("Content-Length", strconv.Itoa(len(text)))
		return nil
	}
	proxy.ServeHTTP(w, r)
}

// watchClient reports a client to watch. The connection of a request is nil.
func (d *debugPortListener) watchClient(conn net.Conn) (stop func()) {
	if watch := d.watch.Load(); watch != nil {
		return (*watch)(conn)
	}
	return func() {}
}

func (d *debugPortListener) beginRequest() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.work.Add(1)
	return true
}

// upgrade connects a WebSocket to the browser until either side has ended or the listener
// is closed.
func (d *debugPortListener) upgrade(w http.ResponseWriter, r *http.Request) {
	if err := ws.CheckHandshake(r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	up, err := ws.DialUpstream(r.Context(), d.dial, r.Host, r.URL.RequestURI(), r.Header)
	if err != nil {
		d.writeError(w, err)
		return
	}
	client, err := up.TakeOver(w, nil)
	if err != nil {
		_ = up.Conn.Close()
		d.log.Debug("failed to take over a debugging connection", "error", err)
		return
	}
	options := intercept.RelayOptions{Calls: d.calls, Watch: d.watchClient}
	if d.observed {
		target := strings.TrimPrefix(r.URL.Path, pagePath)
		if target == r.URL.Path {
			target = ""
		}
		options.Client = tap.NewClient(r, "CDP", target)
	}
	intercept.NewRelay(client, &up.Raw, options).Run(d.ctx)
}

// writeError responds when the browser did not.
func (d *debugPortListener) writeError(w http.ResponseWriter, err error) {
	if refused, ok := errors.AsType[*ws.RefusedError](err); ok {
		http.Error(w, http.StatusText(refused.Status), refused.Status)
		return
	}
	d.log.Debug("debugging port request failed", "error", err)
	if errors.Is(err, sandbox.ErrBusy) {
		http.Error(w, sandbox.ErrBusy.Message, http.StatusServiceUnavailable)
		return
	}
	http.Error(w, "The browser does not answer.", http.StatusBadGateway)
}

// close stops the listener and its connections.
func (d *debugPortListener) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.cancel()
	_ = d.server.Close()
	d.work.Wait()
}
