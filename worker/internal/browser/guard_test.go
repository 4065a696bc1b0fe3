package browser_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/proxy"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// wall is a browser with rules, and a site whose hosts below allowed.localhost they allow.
type wall struct {
	*browser.Browser
	client
	port  string // :port of the site
	first string // the target that stays open
	log   *testenv.Log

	blockList *browser.BlockList // of the next start

	mu       sync.Mutex
	hits     []string // hosts that were requested
	requests int      // other than for the first page and its icon
}

// allowedHosts is the pattern of the hosts that the rules allow.
const allowedHosts = "*.allowed.localhost"

// newWall starts a browser with rules; of its requests, those to other hosts are recorded.
func newWall(t *testing.T, rules *netrules.Rules, change func(*browser.Spec)) *wall {
	t.Helper()
	w := &wall{log: &testenv.Log{}}
	site := httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(site.Close)
	w.port = site.URL[strings.LastIndexByte(site.URL, ':'):]
	w.start(t, rules, change)
	return w
}

// start starts a browser with rules, in place of the former one.
func (w *wall) start(t *testing.T, rules *netrules.Rules, change func(*browser.Spec)) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	policy, err := netrules.NewPolicy(netrules.Level{Name: "launch", Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	egress, err := proxy.NewEgressPolicy(proxy.Rules{AllowLocal: true})
	if err != nil {
		t.Fatal(err)
	}
	forwarder, err := proxy.Start(egress, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(forwarder.Close)
	forwarder.SetRules(policy)
	r := newFixtureWith(t, func(o *browser.Options) {
		o.BlockList = w.blockList
		o.Log, o.Isolation = log, &sandbox.Options{Disk: 1 << 30, Processes: 2000}
	})
	spec := r.spec("wall")
	spec.Rules, spec.ProxyServer, spec.OnProxyListener = policy, forwarder.Address(), forwarder.MoveTo
	spec.OpenContextProxy = func(server, bypass string) (string, func(), error) {
		upstream, err := proxy.ParseContextProxy(server)
		if err != nil || upstream == nil {
			return "", nil, err
		}
		upstream.Bypass = bypass
		c, err := forwarder.OpenContextProxy(*upstream)
		if err != nil {
			return "", nil, err
		}
		return c.Address(), c.Close, nil
	}
	if change != nil {
		change(&spec)
	}
	if spec.Warm { // and is configured then
		warm := spec
		warm.Rules, warm.StartURLs = nil, nil
		w.Browser = r.launch(t, warm)
		spec.Warm = false
		if err := w.Configure(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
	} else {
		w.Browser = r.launch(t, spec)
	}
	w.client = dial(t, w.Browser)
	w.first = w.targets(t)[0].TargetID
}

// url returns the URL of a path at a host of the site.
func (w *wall) url(host, path string) string { return "http://" + host + ".localhost" + w.port + path }

// serve serves pages, scripts and redirects; ?to= is where a page or redirect leads.
func (w *wall) serve(answer http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.Host, ".allowed.localhost"+w.port) || strings.HasPrefix(r.Host, "denied.") {
		w.mu.Lock()
		w.hits = append(w.hits, r.Host)
		w.mu.Unlock()
	}
	if r.URL.Path != "/" && r.URL.Path != "/favicon.ico" {
		w.mu.Lock()
		w.requests++
		w.mu.Unlock()
	}
	destination := r.URL.Query().Get("to")
	answer.Header().Set("Access-Control-Allow-Origin", "*")
	answer.Header().Set("Cache-Control", "no-store")
	switch r.URL.Path {
	case "/redirect":
		http.Redirect(answer, r, destination, http.StatusFound)
	case "/temporary":
		http.Redirect(answer, r, destination, http.StatusTemporaryRedirect)
	case "/refresh":
		answer.Header().Set("Refresh", "0; url="+destination)
		answer.Header().Set("Content-Type", "text/html")
	case "/report":
		answer.Header().Set("Content-Type", "text/html")
		answer.Header().Set("Content-Security-Policy", "img-src 'none'; report-uri "+destination)
		fmt.Fprint(answer, `<img src="/x">`)
	case "/meta":
		answer.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(answer, `<meta http-equiv="refresh" content="0; url=%s">`, destination)
	case "/worker.js":
		answer.Header().Set("Content-Type", "text/javascript")
		fmt.Fprintf(answer, `fetch(%q, {mode: "no-cors"}).catch(() => {}); onconnect = () => {}`, destination)
	case "/service.js":
		answer.Header().Set("Content-Type", "text/javascript")
		fmt.Fprintf(answer, `const destination = %q; oninstall = () => skipWaiting(); onactivate = e => e.waitUntil(clients.claim());
onfetch = e => { if (e.request.url.includes("/lead")) e.respondWith(Response.redirect(destination)); else if (e.request.url.includes("/pass")) e.respondWith(fetch(destination, {mode: "no-cors"})) }
onmessage = () => clients.openWindow(destination)`, destination)
	default:
		answer.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(answer, "<title>%s</title>the page", r.URL.Path)
	}
}

// requested returns the hosts that were requested although the rules deny them.
func (w *wall) requested() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hits
}

// awaitDenied waits until a request to a host was denied.
func (w *wall) awaitDenied(t *testing.T, host string) {
	t.Helper()
	eventually(t, 15*time.Second, "denied: "+host, func() bool {
		return strings.Contains(w.log.String(), "host="+host+".localhost"+w.port)
	})
}

// closePages closes all pages but the first.
func (w *wall) closePages(t *testing.T) {
	t.Helper()
	for _, target := range w.targets(t) {
		if target.Type == "page" && target.TargetID != w.first {
			_ = w.Call(t.Context(), "", "Target.closeTarget", map[string]any{"targetId": target.TargetID}, nil) // it may close itself
		}
	}
}

// page opens a page of an allowed host.
func (w *wall) page(t *testing.T) (session string) {
	t.Helper()
	return w.openLoaded(t, w.url("www.allowed", "/"))
}

// run evaluates a script, which need not return, in a page.
func (w *wall) run(t *testing.T, session, script string) {
	t.Helper()
	w.call(t, session, "Runtime.evaluate", map[string]any{"expression": script, "userGesture": true})
}

// navigate returns the error text of a navigation.
func (w *wall) navigate(t *testing.T, session, address string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var answer struct{ ErrorText string }
	if err := w.Call(ctx, session, "Page.navigate", map[string]any{"url": address}, &answer); err != nil {
		return err.Error()
	}
	return answer.ErrorText
}

func TestGuard_AllowsTheRest(t *testing.T) {
	w := newWall(t, &netrules.Rules{Navigate: &netrules.Filter{Deny: []string{"denied.localhost"}}, Methods: &netrules.Methods{ReadOnly: true}, Block: []string{"image"}}, nil)
	session := w.page(t)
	var got []string
	w.eval(t, session, fmt.Sprintf(`(async () => {
		const result = async what => { try { await what(); return "ok" } catch { return "denied" } }
		return [
			await result(() => fetch(%[1]q)), await result(() => fetch(%[1]q, {method: "POST"})),
			await result(() => new Promise((ok, fail) => Object.assign(new Image(), {onload: ok, onerror: fail, src: %[1]q}))),
			await result(() => new Promise((ok, fail) => document.head.append(Object.assign(document.createElement("script"), {onload: ok, onerror: fail, src: "/worker.js?to=/"})))),
		]
	})()`, w.url("denied", "/")), &got)
	if strings.Join(got, " ") != "ok denied denied ok" {
		t.Errorf("got %v", got)
	}
	if text := w.navigate(t, session, w.url("denied", "/")); text != "net::ERR_BLOCKED_BY_CLIENT" {
		t.Errorf("a denied document: %q", text)
	}
	if text := w.navigate(t, session, w.url("www.allowed", "/again")); text != "" {
		t.Errorf("an allowed document: %q", text)
	}
}
