package har_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/media/har"
	"github.com/browser-svc/svc/worker/internal/testing/browsertest"
)

// newSite serves a page with requests of all kinds. Its frame is of another site.
func newSite(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	serve := func(path, kind, text string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "cookie-secret"})
			_, _ = io.WriteString(w, text)
		})
	}
	var site *httptest.Server
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "cookie-secret"})
		_, _ = fmt.Fprintf(w, page, strings.Replace(site.URL, "127.0.0.1", "localhost", 1))
	})
	serve("/frame", "text/html", `<!doctype html><title>Frame</title><script>fetch('/of-frame')</script>`)
	serve("/popup", "text/html", `<!doctype html><title>Popup</title><script>fetch('/of-popup')</script>`)
	serve("/worker.js", "text/javascript", `fetch('/of-worker').then(r => r.text()).then(postMessage)`)
	serve("/service.js", "text/javascript", `oninstall = e => { skipWaiting(); e.waitUntil(fetch('/of-service')) }; onactivate = e => e.waitUntil(clients.claim())`)
	for _, name := range []string{"/of-frame", "/of-popup", "/of-worker", "/of-service", "/target"} {
		serve(name, "text/plain; charset=utf-8", "text of "+name)
	}
	mux.HandleFunc("/binary", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write([]byte{0, 1, 2, 255})
	})
	mux.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, har.MaxBody+1)) })
	mux.HandleFunc("/first", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Hop", "one")
		http.Redirect(w, r, "/second", http.StatusFound)
	})
	mux.HandleFunc("/second", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Hop", "two")
		http.Redirect(w, r, "/target", http.StatusFound)
	})
	mux.HandleFunc("/post", func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	mux.HandleFunc("/socket", func(w http.ResponseWriter, r *http.Request) {
		socket, err := ws.Accept(w, r, ws.Options{})
		if err != nil {
			return
		}
		defer func() { _ = socket.CloseNow() }()
		kind, message, err := socket.Read(r.Context())
		if err == nil {
			_ = socket.Write(r.Context(), kind, append([]byte("echo "), message...))
			_, _, _ = socket.Read(r.Context())
		}
	})
	site = testenv.Serve(t, mux)
	return site
}

const page = `<!doctype html><title>Page</title><link rel=icon href=data:,><iframe src="%s/frame"></iframe><script>
const text = (...args) => fetch(...args).then(r => r.text());
(async () => {
  await text('/first');
  await text('/post', {method: 'POST', body: new URLSearchParams({user: 'robot', password: 'typed-secret', note: 'filled secret+1'}), headers: {Authorization: 'Bearer token-secret'}});
  await text('/binary?a=b%%20c&access_token=token-secret');
  await text('/long');
  await fetch('http://127.0.0.1:1/refused').catch(() => {});
  await new Promise(resolve => {
    const socket = new WebSocket('ws://' + location.host + '/socket');
    socket.onopen = () => socket.send('hello');
    socket.onmessage = () => socket.close();
    socket.onclose = resolve;
  });
  await new Promise(resolve => { new Worker('/worker.js').onmessage = resolve });
  await navigator.serviceWorker.register('/service.js');
  document.title = 'Done';
})();
</script>`

// log is what was collected.
type log struct {
	mu      sync.Mutex
	entries []har.Entry
	pages   map[string]har.Page
	missed  int
}

func (l *log) add(e har.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, e)
}

// find returns the entries whose URL has a path.
func (l *log) find(path string) (found []har.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if address, _, _ := strings.Cut(e.Request.URL, "?"); strings.HasSuffix(address, path) {
			found = append(found, e)
		}
	}
	return found
}

// entry returns the only entry of a path.
func (l *log) entry(t *testing.T, path string) har.Entry {
	t.Helper()
	found := l.find(path)
	if len(found) != 1 {
		t.Fatalf("%s has %d entries: %+v", path, len(found), found)
	}
	return found[0]
}

// collected is a browser whose requests are collected.
type collected struct {
	*log
	browser *browser.Browser
	connect func() *cdp.Conn
	stop    func() error // ends the collection and returns its error
}

func collect(t testing.TB, o har.Options) *collected {
	t.Helper()
	b := browsertest.NewLauncher(t)(browser.Spec{LaunchID: "one", Headless: true, Timeout: time.Minute})
	running := access.Browser{DebugPort: b.DebugPort, DebugPath: b.WebSocketPath, Dial: b.Dial, Done: b.Done()}
	c := &collected{log: &log{pages: map[string]har.Page{}}, browser: b}
	c.connect = func() *cdp.Conn {
		conn, err := running.ConnectCDP(t.Context(), har.MaxMessage)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	ready := make(chan struct{})
	o.Ready = func() { close(ready) }
	o.Missed = func() { c.mu.Lock(); defer c.mu.Unlock(); c.missed++ }
	o.Page = func(p har.Page) { c.mu.Lock(); defer c.mu.Unlock(); c.pages[p.ID] = p }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	conn := c.connect()
	go func() { ended <- har.Collect(ctx, conn, o, c.add) }()
	c.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		if _ = c.stop(); t.Failed() {
			c.dump(t)
		}
	})
	<-ready
	return c
}

// dump logs what was collected.
func (l *log) dump(t testing.TB) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		t.Logf("%s %s %s %d %s %q %q %.20q %v", e.PageRef, e.Request.Method, e.Request.URL, e.Response.Status, e.Response.Error, e.Comment, e.Response.Content.Comment, e.Response.Content.Text, e.Time)
	}
	t.Logf("%+v missed %d", l.pages, l.missed)
}

func value(list []har.Field, name string) string {
	for _, f := range list {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

func TestCollect_RecordsAllTargets(t *testing.T) {
	site := newSite(t)
	c := collect(t, har.Options{Secrets: func() []string { return []string{"filled secret+1", "ab"} }})
	tab := browsertest.FirstTab(t, c.browser, site.URL+"/page")
	tab.WaitFor("the end of the script", "document.title", "Done")
	tab.Eval("open('/popup').name")
	for _, path := range []string{"/page", "/frame", "/of-frame", "/popup", "/of-popup", "/worker.js", "/of-worker", "/of-service", "/socket", "/refused", "/long"} {
		testenv.Eventually(t, "the entry of "+path, func() bool { return len(c.find(path)) > 0 })
	}
	testenv.Eventually(t, "the times of the page", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.pages) > 0 && c.pages["page_2"].PageTimings.OnLoad > 0 || c.pages["page_1"].PageTimings.OnLoad > 0
	})
	if err := c.stop(); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("ended with %v", err)
	}
	first, second, target := c.entry(t, "/first"), c.entry(t, "/second"), c.entry(t, "/target")
	if value(first.Response.Headers, "x-hop") != "one" || value(second.Response.Headers, "x-hop") != "two" || first.Response.RedirectURL != "/second" || target.Response.Content.Text != "text of /target" {
		t.Errorf("redirects: %+v\n%+v\n%+v", first.Response, second.Response, target.Response)
	}
	post := c.entry(t, "/post")
	if want := "user=robot&password=***&note=***"; post.Request.PostData == nil || post.Request.PostData.Text != want || len(post.Request.PostData.Params) != 3 {
		t.Errorf("posted: %+v", post.Request.PostData)
	}
	if binary := c.entry(t, "/binary"); binary.Response.Content.Encoding != "base64" || binary.Response.Content.Text != "AAEC/w==" ||
		value(binary.Request.QueryString, "a") != "b c" || value(binary.Request.QueryString, "access_token") != "***" {
		t.Errorf("binary: %+v", binary)
	}
	if long := c.entry(t, "/long"); long.Response.Content.Text != "" || !strings.Contains(long.Response.Content.Comment, "longer than") || long.Response.Content.Size != har.MaxBody+1 {
		t.Errorf("long: %.200v", long.Response.Content)
	}
	if refused := c.entry(t, "/refused"); refused.Response.Status != 0 || !strings.Contains(refused.Response.Error, "ERR_") {
		t.Errorf("refused: %+v", refused)
	}
	socket := c.entry(t, "/socket")
	var messages []string
	for _, m := range socket.WebSocketMessages {
		messages = append(messages, m.Type+" "+m.Data)
	}
	if !slices.Equal(messages, []string{"send hello", "receive echo hello"}) || socket.Response.Status != 101 || socket.ResourceType != "websocket" {
		t.Errorf("socket: %+v", socket)
	}
	for _, path := range []string{"/page", "/frame", "/of-frame", "/popup", "/of-popup", "/of-worker"} {
		if e := c.entry(t, path); e.PageRef == "" || e.Response.Status != 200 || e.Response.Content.Text == "" || value(e.Response.Headers, "Content-Type") == "" {
			t.Errorf("%s: %+v", path, e)
		}
	}
}
