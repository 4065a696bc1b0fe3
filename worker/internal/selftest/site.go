package selftest

import (
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// testSite is the website that the browsers visit, on the loopback, with its
// proxy.
type testSite struct {
	pagePort, proxyPort int // ports
	servers             []*http.Server
	serving             sync.WaitGroup

	mu      sync.Mutex
	visits  map[string]int // of pages, by token
	proxied map[string]int // requests through the proxy, by token
}

// The credentials that the proxy requires.
const (
	proxyUser     = "robot"
	proxyPassword = "selftest"
)

func startSite() (*testSite, error) {
	s := &testSite{visits: map[string]int{}, proxied: map[string]int{}}
	var err error
	if s.pagePort, err = s.serve(http.HandlerFunc(s.servePage)); err == nil {
		s.proxyPort, err = s.serve(http.HandlerFunc(s.serveProxy))
	}
	if err != nil {
		s.close()
	}
	return s, err
}

func (s *testSite) serve(handler http.Handler) (port int, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		return 0, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	s.servers = append(s.servers, server)
	s.serving.Go(func() { _ = server.Serve(listener) })
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func (s *testSite) close() {
	for _, server := range s.servers {
		_ = server.Close()
	}
	s.serving.Wait()
}

// allowedHosts are the addresses that the worker must allow browsers to reach.
func (s *testSite) allowedHosts() string {
	return fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d", s.pagePort, s.proxyPort)
}

// pageURL returns the URL of a page, whose title is its token.
func (s *testSite) pageURL(token string) string {
	return fmt.Sprintf("http://127.0.0.1:%d/page/%s", s.pagePort, token)
}

// proxiedURL returns the page's URL that works only through the proxy.
func (s *testSite) proxiedURL(token string) string { return "http://selftest.invalid/page/" + token }

func (s *testSite) servePage(w http.ResponseWriter, r *http.Request) {
	token, ok := strings.CutPrefix(r.URL.Path, "/page/")
	if !ok {
		http.NotFound(w, r)
		return
	}
	s.mu.Lock()
	s.visits[token]++
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = fmt.Fprintf(w, "<!doctype html><title>%s</title><h1>selftest</h1><p>%s</p>", html.EscapeString(token), strings.Repeat("A page of a selftest. ", 200))
}

// visitCount returns how often a page was requested.
func (s *testSite) visitCount(token string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.visits[token]
}

// proxiedCount returns how many requests for a page came through the proxy.
func (s *testSite) proxiedCount(token string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proxied[token]
}

// serveProxy is a proxy that requires credentials and serves only the test
// pages.
func (s *testSite) serveProxy(w http.ResponseWriter, r *http.Request) {
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(proxyUser+":"+proxyPassword))
	if r.Header.Get("Proxy-Authorization") != want {
		w.Header().Set("Proxy-Authenticate", `Basic realm="selftest"`)
		http.Error(w, "proxy authentication required", http.StatusProxyAuthRequired)
		return
	}
	if r.Method == http.MethodConnect || r.URL.Hostname() != "selftest.invalid" {
		http.Error(w, "unknown host", http.StatusBadGateway)
		return
	}
	s.mu.Lock()
	s.proxied[strings.TrimPrefix(r.URL.Path, "/page/")]++
	s.mu.Unlock()
	s.servePage(w, r)
}
