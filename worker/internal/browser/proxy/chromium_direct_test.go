package proxy_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/browser/proxy"
)

const bigSize = 50 << 20

// serveAll serves an origin for all kinds of requests of pages.
func serveAll(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/socket":
		c, err := ws.Accept(w, r, ws.Options{})
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			kind, message, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), kind, message) != nil {
				return
			}
		}
	case "/events":
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			http.NewResponseController(w).Flush()
		}
		<-r.Context().Done() // the page must receive them before the end of the response
	case "/big":
		w.Header().Set("Content-Length", strconv.Itoa(bigSize))
		io.CopyN(w, patternReader{}, bigSize)
	case "/upload":
		hash := sha256.New()
		io.Copy(hash, r.Body)
		fmt.Fprintf(w, "%x", hash.Sum(nil))
	default:
		fmt.Fprint(w, "<title>in</title><body>")
	}
}

// patternReader reads an endless sequence of the letter a.
type patternReader struct{}

func (patternReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

// everything makes all kinds of requests to the page's origin and returns their results.
const everything = `(async () => {
	const hex = async (of) => Array.from(new Uint8Array(await crypto.subtle.digest("SHA-256", of)), b => b.toString(16).padStart(2, "0")).join("");
	const big = new Uint8Array(await (await fetch("/big")).arrayBuffer());
	const socket = new WebSocket(location.origin.replace("http", "ws") + "/socket");
	const echoed = await new Promise((done, fail) => {
		socket.onerror = () => fail(new Error("socket"));
		socket.onopen = () => socket.send("x".repeat(1 << 20));
		socket.onmessage = m => done(m.data.length);
	});
	socket.close();
	const events = await new Promise((done, fail) => {
		const source = new EventSource("/events"), seen = [];
		source.onerror = () => fail(new Error("events"));
		source.onmessage = m => { seen.push(m.data); if (seen.length == 3) { source.close(); done(seen.join(" ")) } };
	});
	const uploaded = await (await fetch("/upload", {method: "POST", body: big})).text();
	return JSON.stringify({size: big.length, echoed, events, uploaded, hash: crypto.subtle ? await hex(big) : ""});
})()`

func TestChromium_DirectSupportsAllRequests(t *testing.T) {
	f, _ := startForwarder(t, newPolicy(t, proxy.DefaultDenylist))
	b := launch(t, "straight", f.Address())
	f.Restrict(b.UID())
	hash := sha256.New()
	io.CopyN(hash, patternReader{}, bigSize)
	want := fmt.Sprintf("%x", hash.Sum(nil))
	for name, start := range map[string]func(http.Handler) *httptest.Server{"http and ws": httptest.NewServer, "https and wss": httptest.NewTLSServer} {
		t.Run(name, func(t *testing.T) {
			origin := start(http.HandlerFunc(serveAll))
			t.Cleanup(origin.Close)
			text := evaluate(t, b, attach(t, b, origin.URL+"/"), everything)
			var got struct {
				Size, Echoed           int
				Events, Uploaded, Hash string
			}
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if got.Size != bigSize || got.Echoed != 1<<20 || got.Events != "0 1 2" || got.Uploaded != want || got.Hash != want {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestChromium_DirectLoadsSixteenPages(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(serveLoad))
	t.Cleanup(origin.Close)
	f, _ := startForwarder(t, newPolicy(t, proxy.DefaultDenylist))
	b := launch(t, "sixteen", f.Address())
	var loading sync.WaitGroup
	for range 16 {
		page := attach(t, b, origin.URL+"/blank")
		loading.Go(func() {
			for range testenv.Depth(1, 3) {
				const load = `new Promise(done => { const f = document.createElement("iframe"); f.src = "/page?" + Math.random(); document.body.append(f);
					f.onload = () => done(Array.from(f.contentDocument.images).filter(i => i.complete && i.naturalWidth == 1).length) })`
				if got := evaluate(t, b, page, load); got != "30" {
					t.Errorf("%s images of 30", got)
				}
			}
		})
	}
	loading.Wait()
}

func TestChromium_ShowsDenialsAndFailures(t *testing.T) {
	victim := launch(t, "victim", "")
	around := newPolicy(t, proxy.DefaultDenylist)
	t.Cleanup(denyPort(t, around, victim.DebugPort))
	debug := fmt.Sprint(":", victim.DebugPort)
	f, _ := startWithResolver(t, around, resolver(t, map[string]string{"meta.test.": "169.254.169.254", "debug.test.": "127.0.0.1"}))
	b := launch(t, "denied", f.Address())
	t.Cleanup(denyPort(t, around, b.DebugPort))
	page := attach(t, b, "http://"+hostOf(t, site(t).URL)+"/")
	for _, host := range []string{"169.254.169.254", "2852039166", "[::ffff:a9fe:a9fe]", "meta.test", "127.0.0.1" + debug, "localhost" + debug, "[::1]" + debug,
		"0x7f000001" + debug, "debug.test" + debug, "127.0.0.1" + fmt.Sprint(":", b.DebugPort), hostOf(t, f.Address())} {
		if failed := navigate(t, b, page, "http://"+host+"/json/version"); failed != "" {
			t.Errorf("http://%s: %s", host, failed)
		} else if text := evaluate(t, b, page, `document.body.innerText`); !strings.Contains(text, "is denied by the egress policy of this worker") {
			t.Errorf("http://%s shows %.100q", host, text)
		}
		socket := fmt.Sprintf(`new Promise(done => { const s = new WebSocket("ws://%s%s"); s.onopen = () => done("open"); s.onerror = () => done("failed") })`, host, victim.WebSocketPath)
		if got := evaluate(t, b, page, socket); got != "failed" {
			t.Errorf("ws://%s: %s", host, got)
		}
		if failed := navigate(t, b, page, "https://"+host+"/"); failed != "net::ERR_TUNNEL_CONNECTION_FAILED" {
			t.Errorf("https://%s: %q", host, failed)
		}
	}
	gone := listenLoopback(t)
	gone.Close()
	for _, host := range []string{gone.Addr().String(), "unknown.test"} {
		if failed := navigate(t, b, page, "http://"+host+"/"); failed != "net::ERR_EMPTY_RESPONSE" {
			t.Errorf("http://%s: %q", host, failed)
		}
	}
}
