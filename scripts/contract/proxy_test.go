package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/browser-svc/svc/shared/ws"
)

type petDocument struct{ spec *openapi3.T }

func (d petDocument) T() *openapi3.T { return d.spec }

// startProxy starts a proxy in front of a server and returns its address.
func startProxy(t *testing.T, p *proxies, server http.Handler) string {
	t.Helper()
	upstream := httptest.NewServer(server)
	t.Cleanup(upstream.Close)
	target, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	stood, err := p.start(t.Context(), petDocument{loadPets(t)}, target, directTransport())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stood.close)
	return stood.url
}

func get(t *testing.T, address string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func TestProxy_ChecksExchanges(t *testing.T) {
	p, dir := &proxies{}, t.TempDir()
	base := startProxy(t, p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/pets/1":
			w.WriteHeader(http.StatusNoContent)
		case "/nothing":
			http.NotFound(w, r)
		default:
			w.Header().Set("X-Age", "7")
			w.Header()["Content-Type"] = nil
		}
	}))
	for range 2 {
		get(t, base+"/pets/1")
	}
	if status, _ := get(t, base+"/nothing"); status != http.StatusNotFound {
		t.Errorf("the response status was changed to %d", status)
	}
	get(t, base+"/pets/2")
	exchanges, err := p.takeFindings(dir, "try")
	if exchanges != 4 || err == nil {
		t.Fatalf("%d exchanges, %v", exchanges, err)
	}
	for _, want := range []string{
		"3 exchanges violate", "2 × (getPet) answered 204: - the operation does not document the status 204",
		"1 × contract: GET /nothing answered 404: - the answer is not the failure envelope",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "try.findings.log")); err != nil || strings.Count(string(text), "contract: GET") != 3 {
		t.Errorf("the file has %q, %v", text, err)
	}
	if exchanges, err := p.takeFindings(dir, "try"); exchanges != 0 || err != nil {
		t.Errorf("asked again: %d exchanges, %v", exchanges, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "try.findings.log")); err == nil {
		t.Error("the findings of the previous call are still there")
	}
}

func TestProxy_ClientAddressPerRequest(t *testing.T) {
	base := startProxy(t, &proxies{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("X-Forwarded-For")+" "+r.Host)
	}))
	found := map[string]bool{}
	for range 20 {
		_, body := get(t, base+"/pets/1")
		address, host, _ := strings.Cut(body, " ")
		if ip, err := netip.ParseAddr(address); err != nil || !netip.MustParsePrefix("198.18.0.0/15").Contains(ip) {
			t.Errorf("the address is %q", address)
		}
		if "http://"+host != base {
			t.Errorf("the host is %q, want %q", host, base)
		}
		found[address] = true
	}
	if len(found) != 20 {
		t.Errorf("%d addresses for 20 requests", len(found))
	}
}

func TestProxy_ForwardsWebSocket(t *testing.T) {
	base := startProxy(t, &proxies{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := ws.Accept(w, r, ws.Options{})
		if err != nil {
			return
		}
		defer conn.CloseNow()
		kind, message, err := conn.Read(r.Context())
		if err == nil {
			_ = conn.Write(r.Context(), kind, append([]byte("heard "), message...))
		}
	}))
	heard, err := exchange(t.Context(), "ws"+strings.TrimPrefix(base, "http")+"/socket", "hello")
	if err != nil || heard != "heard hello" {
		t.Errorf("heard %q, %v", heard, err)
	}
}

func exchange(ctx context.Context, address, words string) (string, error) {
	conn, err := ws.Dial(ctx, address, nil, ws.Options{})
	if err != nil {
		return "", err
	}
	defer conn.CloseNow()
	if err := conn.Write(ctx, ws.Text, []byte(words)); err != nil {
		return "", err
	}
	_, message, err := conn.Read(ctx)
	return string(message), err
}

func TestProxy_ReportsUnansweredRequest(t *testing.T) {
	p := &proxies{}
	base := startProxy(t, p, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	if status, _ := get(t, base+"/pets/1"); status != http.StatusBadGateway {
		t.Errorf("the response was %d", status)
	}
	if _, err := p.takeFindings(t.TempDir(), "try"); err == nil || !strings.Contains(err.Error(), "GET /pets/1 got no response") {
		t.Errorf("found %v", err)
	}
}
