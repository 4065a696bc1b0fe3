package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/browser/proxy"
)

func TestSetUpstream_AppliesToNewRequestsOnly(t *testing.T) {
	proceed := make(chan struct{})
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			io.WriteString(w, "begun ")
			http.NewResponseController(w).Flush()
			<-proceed
		}
		fmt.Fprintf(w, "%s %q", r.Host, r.Header["Proxy-Authorization"])
	}))
	defer origin.Close()
	address := hostOf(t, origin.URL)
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			first, second := newFakeInternet(t, kind, address), newFakeInternet(t, kind, address)
			first.Bypass, second.Bypass = "<-loopback>", "<-loopback>,bypassed.test"
			f, _ := startWithResolver(t, newPolicy(t, ""), resolver(t, map[string]string{"bypassed.test.": "127.0.0.1"}))
			client := clientOf(t, f) // uses one connection throughout
			tunnels, bodies := map[string]io.ReadWriter{}, map[string]io.Reader{}
			begin := func(name string) {
				c, reader := connect(t, f, address)
				tunnels[name] = struct {
					io.Reader
					io.Writer
				}{reader, c}
				answer, err := client.Get(origin.URL + "/slow")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { answer.Body.Close() })
				bodies[name] = answer.Body
				if _, text := do(t, client, "GET", origin.URL, ""); text != address+" []" {
					t.Errorf("%s: %q", name, text)
				}
			}
			use := func(upstream *proxy.Upstream) {
				if err := f.SetUpstream(upstream); err != nil {
					t.Fatal(err)
				}
			}
			requests := func(o *fakeInternet) int { _, targets, _ := o.requests(); return len(targets) }
			begin("straight")
			use(&first.Upstream)
			begin("first")
			if requests(first) < 2 || requests(second) != 0 {
				t.Errorf("with the first upstream: got %d and %d requests", requests(first), requests(second))
			}
			before := requests(first)
			use(&second.Upstream)
			begin("second")
			counted := requests(second)
			do(t, client, "GET", "http://bypassed.test:"+origin.URL[strings.LastIndex(origin.URL, ":")+1:], "")
			if requests(first) != before || requests(second) != counted || counted < 2 {
				t.Errorf("with the second upstream: got %d more and %d requests, %d more for a bypassed host", requests(first)-before, counted, requests(second)-counted)
			}
			use(nil)
			begin("direct again")
			if requests(first) != before || requests(second) != counted {
				t.Error("a direct request went to a proxy")
			}
			for name, tunnel := range tunnels {
				io.WriteString(tunnel, "GET /"+strings.ReplaceAll(name, " ", "-")+" HTTP/1.0\r\n\r\n")
				if text, err := io.ReadAll(tunnel); err != nil || !strings.HasPrefix(string(text), "HTTP/1.0 200") {
					t.Errorf("the tunnel %s: %.20q, %v", name, text, err)
				}
			}
			close(proceed)
			for name, body := range bodies {
				if text, err := io.ReadAll(body); err != nil || string(text) != "begun "+address+" []" {
					t.Errorf("the answer %s: %q, %v", name, text, err)
				}
			}
			proceed = make(chan struct{})
		})
	}
}

func TestSetUpstream_CredentialsStayWithTheirUpstream(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(echo))
	defer origin.Close()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			mine, other := newFakeInternet(t, kind, hostOf(t, origin.URL)), newFakeInternet(t, kind, hostOf(t, origin.URL))
			other.Username, other.Password = "", ""
			f, log := startWithResolver(t, newPolicy(t, ""), resolver(t, nil)) // only the upstreams can resolve the site
			var asking sync.WaitGroup
			done := make(chan struct{})
			for range 4 {
				asking.Go(func() {
					client := clientOf(t, f)
					for {
						select {
						case <-done:
							return
						default:
						}
						if answer, err := client.Get("http://site.test/"); err == nil {
							io.Copy(io.Discard, answer.Body)
							answer.Body.Close()
						}
					}
				})
			}
			for i := range 100 {
				upstream := []*proxy.Upstream{&mine.Upstream, &other.Upstream}[i%2]
				if err := f.SetUpstream(upstream); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Millisecond)
			}
			close(done)
			asking.Wait()
			logins, _, _ := mine.requests()
			others, _, _ := other.requests()
			if !slices.Contains(logins, username+":"+password) {
				t.Errorf("the first upstream got credentials %q", logins)
			}
			if len(others) == 0 || strings.Contains(strings.Join(others, " "), username) || strings.Contains(strings.Join(others, " "), password) {
				t.Errorf("the other upstream got credentials %q", others)
			}
			assertNoSecret(t, log.String(), mine.Upstream)
		})
	}
}

func TestSetUpstream_InvalidUpstreamChangesNothing(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(echo))
	defer origin.Close()
	f, _ := startWithUpstream(t, newFakeInternet(t, "http", hostOf(t, origin.URL)).Upstream)
	if err := f.SetUpstream(&proxy.Upstream{Server: "ftp://x:1"}); err == nil {
		t.Fatal("an invalid upstream was accepted")
	}
	if answer, _ := do(t, clientOf(t, f), "GET", "http://site.test/", ""); answer.StatusCode != http.StatusOK {
		t.Errorf("after the error: got %s", answer.Status)
	}
}
