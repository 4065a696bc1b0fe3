package proxy_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/worker/internal/browser/proxy"
)

// echo answers with the request.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s proxy=%q body=%s", r.Method, r.Host, r.URL, r.Header.Get("Proxy-Authorization"), body)
}

func hostOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func TestForwarder_CredentialsReachOnlyUpstream(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(echo))
	defer plain.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(echo))
	defer secure.Close()
	big := strings.Repeat("b", 1<<20)
	for _, kind := range kinds {
		for _, c := range []struct{ name, method, address, body, want string }{
			{"GET", "GET", "http://site.test/a?b=1;c", "", `GET site.test /a?b=1;c proxy="" body=`},
			{"POST", "POST", "http://site.test:8080/", big, `POST site.test:8080 / proxy="" body=` + big},
			{"tunnel", "POST", "https://example.com:444/x", big, `POST example.com:444 /x proxy="" body=` + big},
			{"tunnel to an address", "GET", "https://[::1]:444/x", "", `GET [::1]:444 /x proxy="" body=`},
		} {
			t.Run(kind+" "+c.name, func(t *testing.T) {
				origin := plain
				if strings.HasPrefix(c.address, "https") {
					origin = secure
				}
				o := newFakeInternet(t, kind, hostOf(t, origin.URL))
				f, _ := startWithUpstream(t, o.Upstream)
				client := clientOf(t, f)
				client.Transport.(*http.Transport).TLSClientConfig = origin.Client().Transport.(*http.Transport).TLSClientConfig
				for range 2 {
					answer, text := do(t, client, c.method, c.address, c.body)
					if answer.StatusCode != http.StatusOK || text != c.want {
						t.Errorf("%s %.100q, want %.100q", answer.Status, text, c.want)
					}
				}
				logins, targets, _ := o.requests()
				if !slices.Contains(logins, username+":"+password) || len(slices.Compact(logins)) != 1 {
					t.Errorf("the upstream got credentials %q", logins)
				}
				if want := hostOf(t, c.address); !strings.HasPrefix(targets[0], strings.TrimSuffix(want, ":80")) {
					t.Errorf("the upstream got requests for %q, want %s unresolved", targets, want)
				}
			})
		}
	}
}

func TestForwarder_PassesOnlyEndToEndHeaders(t *testing.T) {
	var got http.Header
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		w.Header().Set("Connection", "X-Hop-Back")
		w.Header().Set("X-Hop-Back", "1")
		w.Header().Set("Proxy-Authenticate", "Basic")
		w.Header().Set("X-End", "1")
	}))
	defer origin.Close()
	o := newFakeInternet(t, "http", hostOf(t, origin.URL))
	f, _ := startWithUpstream(t, o.Upstream)
	answer, _ := ask(t, dial(t, f), "GET", "http://site.test/ HTTP/1.1\nHost: other.test\nConnection: X-Hop, keep-alive\nX-Hop: 1\n"+
		"Proxy-Connection: keep-alive\nProxy-Authorization: Basic bWluZQ==\nTe: gzip\nX-Forwarded-For: 192.0.2.1\nX-End: 1")
	_, targets, headers := o.requests()
	for _, name := range []string{"Connection", "X-Hop", "Proxy-Connection", "Te", "User-Agent", "Accept-Encoding"} {
		if headers[0].Get(name) != "" {
			t.Errorf("%s: %q reached the upstream", name, headers[0].Get(name))
		}
	}
	if headers[0].Get("X-End") != "1" || headers[0].Get("X-Forwarded-For") != "192.0.2.1" || got.Get("X-End") != "1" {
		t.Errorf("an end-to-end header was removed: %v, then %v", headers[0], got)
	}
	if targets[0] != "site.test" {
		t.Errorf("target %q is the Host header's, not the request line's", targets[0])
	}
	if answer.Header.Get("X-Hop-Back") != "" || answer.Header.Get("Proxy-Authenticate") != "" || answer.Header.Get("X-End") != "1" {
		t.Errorf("answered %v", answer.Header)
	}
}

func TestForwarder_StreamsPlainAnswer(t *testing.T) {
	proceed := make(chan struct{})
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "11") // with an unknown length, it would be flushed anyway
		io.WriteString(w, "first")
		http.NewResponseController(w).Flush()
		<-proceed
		io.WriteString(w, "second")
	}))
	defer origin.Close()
	f, _ := startWithUpstream(t, newFakeInternet(t, "http", hostOf(t, origin.URL)).Upstream)
	answer, err := clientOf(t, f).Get("http://site.test/")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	first := make([]byte, 5)
	if _, err := io.ReadFull(answer.Body, first); err != nil || string(first) != "first" {
		t.Errorf("%q, %v before the end", first, err)
	}
	close(proceed)
	if rest, err := io.ReadAll(answer.Body); err != nil || string(rest) != "second" {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestForwarder_AnswerMayBeginBeforeRequestEnds(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		io.CopyN(io.Discard, r.Body, 5)
		io.WriteString(w, "begun ")
		http.NewResponseController(w).Flush()
		rest, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %v", rest, err)
	}))
	t.Cleanup(origin.Close)
	f, _ := startWithUpstream(t, newFakeInternet(t, "socks5", hostOf(t, origin.URL)).Upstream)
	body, send := io.Pipe()
	defer time.AfterFunc(10*time.Second, func() { send.Close() }).Stop()
	go send.Write([]byte("first"))
	request, _ := http.NewRequestWithContext(t.Context(), "POST", "http://site.test/", body)
	request.ContentLength = 11
	answer, err := clientOf(t, f).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	go send.Write([]byte("second"))
	if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "begun second <nil>" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestForwarder_RefusesNonProxyRequest(t *testing.T) {
	o := newFakeInternet(t, "http", "127.0.0.1:1")
	f, _ := startWithUpstream(t, o.Upstream)
	for _, request := range []string{"GET / HTTP/1.1\nHost: x", "GET https://site.test/ HTTP/1.1\nHost: site.test", "OPTIONS * HTTP/1.1\nHost: x",
		"CONNECT site.test HTTP/1.1\nHost: site.test", "CONNECT site.test:0 HTTP/1.1\nHost: site.test:0", "CONNECT :443 HTTP/1.1\nHost: :443"} {
		method, rest, _ := strings.Cut(request, " ")
		if answer, _ := ask(t, dial(t, f), method, rest); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: %s, want 400", request, answer.Status)
		}
	}
	if _, targets, _ := o.requests(); len(targets) > 0 {
		t.Errorf("the upstream got requests for %q", targets)
	}
}

func TestSetUpstream_ErrorHoldsNoCredentials(t *testing.T) {
	f, _ := startForwarder(t, newPolicy(t, ""))
	for _, u := range []proxy.Upstream{
		{}, {Server: "proxy.test:3128"}, {Server: "http://"}, {Server: "ftp://proxy.test:21"}, {Server: "socks4://proxy.test:1080"},
		{Server: "http://u:sesame@proxy.test:3128"}, {Server: "http://proxy.test:3128/sesame"}, {Server: "http://proxy.test:3128?sesame"},
		{Server: "http://sesame:sesame:sesame"}, {Server: "http://proxy.test:3128", Username: "a:b", Password: "sesame"},
		{Server: "socks5://proxy.test:1080", Password: "sesame"}, {Server: "socks5://proxy.test:1080", Username: "u", Password: strings.Repeat("sesame", 50)},
	} {
		for name, err := range map[string]error{"use": f.SetUpstream(&u), "check": proxy.Check(t.Context(), u, newPolicy(t, ""))} {
			if err == nil {
				t.Errorf("%s: %+v was accepted", name, u)
			} else if strings.Contains(err.Error(), "sesame") {
				t.Errorf("%s: the error repeats a secret: %v", name, err)
			}
		}
	}
}

func TestRestrict_ServesOneUserOnly(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(echo))
	defer origin.Close()
	f, log := startWithUpstream(t, newFakeInternet(t, "http", hostOf(t, origin.URL)).Upstream)
	me := os.Geteuid()
	open, _ := connect(t, f, "site.test:80")
	f.Restrict(me)
	if answer, _ := do(t, clientOf(t, f), "GET", "http://site.test/", ""); answer.StatusCode != http.StatusOK {
		t.Errorf("the allowed user got %s", answer.Status)
	}
	if answer, _ := ask(t, open, "GET", "/ HTTP/1.1\nHost: site.test"); answer.StatusCode != http.StatusOK {
		t.Errorf("the allowed user's tunnel got %s", answer.Status)
	}
	f.Restrict(me + 1)
	open.SetReadDeadline(time.Now().Add(5 * time.Second))
	if n, err := open.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("another user's tunnel stays open: %d bytes, %v", n, err)
	}
	if answer, err := clientOf(t, f).Get("http://site.test/"); err == nil {
		answer.Body.Close()
		t.Errorf("another user got %s", answer.Status)
	}
	if !strings.Contains(log.String(), fmt.Sprintf("uid=%d", me)) {
		t.Errorf("the refusal is not logged:\n%s", log)
	}
}

// After MoveTo, another process may listen on the old port, so it must not be denied.
func TestMoveTo_ReleasesOldPort(t *testing.T) {
	f, _ := startForwarder(t, newPolicy(t, ""))
	client := clientOf(t, f)
	if answer, text := do(t, client, "GET", f.Address(), ""); answer.StatusCode != http.StatusForbidden {
		t.Errorf("the Forwarder's own port: got %s: %s", answer.Status, text)
	}
	inside, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.MoveTo(inside)
	successor, err := net.Listen("tcp", strings.TrimPrefix(f.Address(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	site := &httptest.Server{Listener: successor, Config: &http.Server{Handler: http.HandlerFunc(echo)}}
	site.Start()
	defer site.Close()
	client = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: inside.Addr().String()}),
	}}
	if answer, text := do(t, client, "GET", site.URL, ""); answer.StatusCode != http.StatusOK {
		t.Errorf("the new owner of the port: got %s: %s", answer.Status, text)
	}
}

func TestForwarder_AddressIsLoopbackWithoutCredentials(t *testing.T) {
	f, _ := startWithUpstream(t, proxy.Upstream{Server: "http://proxy.test", Username: username, Password: password})
	u, err := url.Parse(f.Address())
	if err != nil {
		t.Fatal(err)
	}
	want := url.URL{Scheme: "http", Host: "127.0.0.1:" + u.Port()}
	if diff := cmp.Diff(want, *u); diff != "" {
		t.Error(diff)
	}
	f.Close()
	start := time.Now()
	f.Close()
	if _, err := http.Get(f.Address()); err == nil || time.Since(start) > time.Second {
		t.Errorf("still listening after Close, %v", time.Since(start))
	}
}
