package proxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/browser-svc/svc/worker/internal/browser/proxy"
)

func TestForwarder_RefusedCredentialsAre502WithoutChallenge(t *testing.T) {
	for _, kind := range kinds {
		for name, change := range map[string]func(*proxy.Upstream){
			"wrong password": func(u *proxy.Upstream) { u.Password = "no-such-password" },
			"none":           func(u *proxy.Upstream) { u.Username, u.Password = "", "" },
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				o := newFakeInternet(t, kind, "127.0.0.1:1")
				change(&o.Upstream)
				f, log := startWithUpstream(t, o.Upstream)
				for range 2 {
					tunnel, _ := ask(t, dial(t, f), "CONNECT", "site.test:443 HTTP/1.1\nHost: site.test:443")
					plain, text := do(t, clientOf(t, f), "GET", "http://site.test/", "")
					for _, answer := range []*http.Response{tunnel, plain} {
						if answer.StatusCode != http.StatusBadGateway || answer.Header.Get("Proxy-Authenticate") != "" {
							t.Errorf("%s %v, want 502 without a challenge", answer.Status, answer.Header)
						}
					}
					if want := "The upstream proxy refused the credentials.\n"; text != want {
						t.Errorf("text %q, want %q", text, want)
					}
				}
				if n := strings.Count(log.String(), "level=WARN"); n != 1 {
					t.Errorf("got %d warnings, want one:\n%s", n, log)
				}
			})
		}
	}
}

func TestForwarder_UnreachableUpstreamIs502(t *testing.T) {
	gone := listenLoopback(t)
	gone.Close()
	for _, kind := range kinds {
		f, _ := startWithUpstream(t, proxy.Upstream{Server: kind + "://" + gone.Addr().String(), Username: username, Password: password})
		tunnel, _ := ask(t, dial(t, f), "CONNECT", "site.test:443 HTTP/1.1\nHost: site.test:443")
		plain, text := do(t, clientOf(t, f), "GET", "http://site.test/", "")
		if tunnel.StatusCode != http.StatusBadGateway || plain.StatusCode != http.StatusBadGateway || text != "The upstream proxy cannot be reached.\n" {
			t.Errorf("%s: %s, %s %q", kind, tunnel.Status, plain.Status, text)
		}
	}
}

func TestForwarder_DestinationUnreachableByUpstreamIs502(t *testing.T) {
	gone := listenLoopback(t)
	gone.Close()
	for kind, reason := range map[string]string{"http": "503 Service Unavailable", "socks5": "SOCKS error 5, connection refused"} {
		o := newFakeInternet(t, kind, gone.Addr().String())
		f, _ := startWithUpstream(t, o.Upstream)
		answer, _ := ask(t, dial(t, f), "CONNECT", "site.test:443 HTTP/1.1\nHost: site.test:443")
		text, _ := io.ReadAll(answer.Body)
		if answer.StatusCode != http.StatusBadGateway || !strings.Contains(string(text), reason) {
			t.Errorf("%s: %s %q, want 502 with %q", kind, answer.Status, text, reason)
		}
	}
}

func TestForwarder_ReportsRefusedCredentials(t *testing.T) {
	for _, answer := range []string{"407 Proxy Authentication Required", "401 Unauthorized"} {
		l := listenLoopback(t)
		go serve(l, func(c net.Conn) error {
			http.ReadRequest(bufio.NewReader(c))
			_, err := io.WriteString(c, "HTTP/1.1 "+answer+"\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")
			return err
		})
		f, _ := startWithUpstream(t, proxy.Upstream{Server: "http://" + l.Addr().String(), Username: username, Password: password})
		got, _ := ask(t, dial(t, f), "CONNECT", "site.test:443 HTTP/1.1\nHost: site.test:443")
		text, _ := io.ReadAll(got.Body)
		if got.StatusCode != http.StatusBadGateway || string(text) != "The upstream proxy refused the credentials.\n" {
			t.Errorf("%s: %s %q", answer, got.Status, text)
		}
	}
}

func TestForwarder_InvalidAnswersAre502(t *testing.T) {
	for _, noise := range []string{"", "SSH-2.0-x\r\n", "\x05\xff", "\x05\x01", "\x04\x00", "\x05\x00\x05\x00\x00\x09\x00", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n"} {
		for _, kind := range kinds {
			l := listenLoopback(t)
			go serve(l, func(c net.Conn) error {
				c.Read(make([]byte, 1<<10))
				io.WriteString(c, noise)
				c.(*net.TCPConn).CloseWrite()
				_, err := io.Copy(io.Discard, c)
				return err
			})
			f, _ := startWithUpstream(t, proxy.Upstream{Server: kind + "://" + l.Addr().String(), Username: username, Password: password})
			if got, _ := ask(t, dial(t, f), "CONNECT", "site.test:443 HTTP/1.1\nHost: site.test:443"); got.StatusCode != http.StatusBadGateway {
				t.Errorf("%s, %.20q: %s", kind, noise, got.Status)
			}
		}
	}
}

func TestForwarder_SendsNoCredentialsToUnverifiedProxy(t *testing.T) {
	o := newFakeInternet(t, "https", "127.0.0.1:1")
	o.RootCAs = nil
	f, _ := startWithUpstream(t, o.Upstream)
	answer, _ := do(t, clientOf(t, f), "GET", "http://site.test/", "")
	if answer.StatusCode != http.StatusBadGateway {
		t.Errorf("%s, want 502", answer.Status)
	}
	if logins, _, _ := o.requests(); len(logins) != 0 {
		t.Errorf("the upstream got credentials %q", logins)
	}
}
