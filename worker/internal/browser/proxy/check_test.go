package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser/proxy"
)

// assertCheck checks that the result is exactly want (nil, ErrCredentials or
// ErrUnreachable) and that the error contains no secret.
func assertCheck(t *testing.T, upstream proxy.Upstream, want error) {
	t.Helper()
	begin := time.Now()
	err := proxy.Check(t.Context(), upstream, newPolicy(t, ""))
	if took := time.Since(begin); took > 6*time.Second {
		t.Errorf("the check took %v", took)
	}
	for _, kind := range []error{proxy.ErrCredentials, proxy.ErrUnreachable} {
		if errors.Is(err, kind) != errors.Is(want, kind) {
			t.Errorf("check: %v, want %v", err, want)
		}
	}
	if want == nil && err != nil {
		t.Errorf("check: %v, want none", err)
	}
	if err != nil {
		assertNoSecret(t, err.Error(), upstream)
	}
}

func TestCheck_RealProxies(t *testing.T) {
	for _, kind := range []string{"http", "socks5"} {
		real := testenv.StartProxy(t, kind)
		for name, c := range map[string]struct {
			user, password string
			want           error
		}{
			"right":          {real.Username, real.Password, nil},
			"wrong password": {real.Username, "no-such-password", proxy.ErrCredentials},
			"wrong user":     {"no-such-user", real.Password, proxy.ErrCredentials},
			"missing":        {"", "", proxy.ErrCredentials},
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				assertCheck(t, proxy.Upstream{Server: real.URL, Username: c.user, Password: c.password}, c.want)
			})
		}
	}
}

func TestCheck_RequestsOnlyNonexistentHost(t *testing.T) {
	origin := listenLoopback(t)
	visited := make(chan struct{}, 10)
	go serve(origin, func(c net.Conn) error {
		_, err := io.Copy(io.Discard, c) // until the proxy closes it
		visited <- struct{}{}
		return err
	})
	for _, kind := range kinds {
		o := newFakeInternet(t, kind, "127.0.0.1:1") // answers 503
		assertCheck(t, o.Upstream, nil)
		wrong := o.Upstream
		wrong.Password = "no-such-password"
		assertCheck(t, wrong, proxy.ErrCredentials)
		missing := o.Upstream
		missing.Username, missing.Password = "", ""
		assertCheck(t, missing, proxy.ErrCredentials)
		if _, targets, _ := o.requests(); kind == "socks5" && len(targets) != 2 || kind != "socks5" && targets[0] != "preflight.invalid:443" {
			t.Errorf("%s got requests for %q", kind, targets)
		}
		// An opened tunnel is closed again.
		assertCheck(t, newFakeInternet(t, "http", origin.Addr().String()).Upstream, nil)
	}
	eventually(t, 5*time.Second, "all connections are closed", func() bool { return len(visited) == len(kinds) })
}

func TestCheck_UnreachableProxy(t *testing.T) {
	gone := listenLoopback(t)
	gone.Close()
	silent := listenLoopback(t)
	plain := newFakeInternet(t, "http", "127.0.0.1:1")
	for name, server := range map[string]string{
		"http dead port":    "http://" + gone.Addr().String(),
		"https dead port":   "https://" + gone.Addr().String(),
		"socks5 dead port":  "socks5://" + gone.Addr().String(),
		"http black hole":   "http://" + silentListener(t),
		"http silent":       "http://" + silent.Addr().String(),
		"https silent":      "https://" + silent.Addr().String(),
		"socks5 silent":     "socks5://" + silent.Addr().String(),
		"unknown name":      "http://proxy.invalid:3128",
		"not TLS":           "https://" + hostOf(t, plain.Server),
		"HTTP, no SOCKS":    "socks5://" + hostOf(t, plain.Server),
		"unknown authority": newFakeInternet(t, "https", "127.0.0.1:1").Server,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assertCheck(t, proxy.Upstream{Server: server, Username: username, Password: password}, proxy.ErrUnreachable)
		})
	}
}

func TestCheck_ErrorsHoldNoCredentials(t *testing.T) {
	l := listenLoopback(t)
	go serve(l, func(c net.Conn) error {
		request, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return err
		}
		_, err = io.WriteString(c, "HTTP/1.1 200 OK\r\n"+request.Header.Get("Proxy-Authorization")+"\r\n\r\n")
		return err
	})
	assertCheck(t, proxy.Upstream{Server: "http://" + l.Addr().String(), Username: username, Password: password}, proxy.ErrUnreachable)
}

func TestCheck_EndsWithContext(t *testing.T) {
	silent := listenLoopback(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	begin := time.Now()
	err := proxy.Check(ctx, proxy.Upstream{Server: "http://" + silent.Addr().String()}, newPolicy(t, ""))
	if took := time.Since(begin); !errors.Is(err, context.Canceled) || took > 2*time.Second {
		t.Errorf("%v after %v", err, took)
	}
	eventually(t, 5*time.Second, "no goroutine left", func() bool { return !holdsForwarder() })
}

func TestCheck_DoesNotContactDeniedUpstream(t *testing.T) {
	l := listenLoopback(t)
	visited := make(chan struct{}, 10)
	go serve(l, func(net.Conn) error { visited <- struct{}{}; return nil })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	behind := newPolicy(t, proxy.DefaultDenylist+",127.0.0.0/8,::1")
	private := newPolicy(t, "")
	defer denyPort(t, private, l.Addr().(*net.TCPAddr).Port)()
	f, _ := startForwarder(t, behind)
	for server, by := range map[string]*proxy.EgressPolicy{
		"http://169.254.169.254": behind, "socks5://2852039166:80": behind, "https://[::ffff:169.254.169.254]:80": behind, "http://metadata.google.internal:80": behind,
		"http://localhost:" + port: private, "socks5://0.0.0.0:" + port: private, "http://[::ffff:127.0.0.1]:" + port: private,
		"http://me:" + port: newPolicy(t, "", "Me.:"+port), f.Address(): behind,
	} {
		other, _ := startForwarder(t, by)
		if err := other.SetUpstream(&proxy.Upstream{Server: server}); !errors.Is(err, proxy.ErrDenied) {
			t.Errorf("SetUpstream %s: %v", server, err)
		}
		if err := proxy.Check(t.Context(), proxy.Upstream{Server: server}, by); !errors.Is(err, proxy.ErrDenied) {
			t.Errorf("Check %s: %v", server, err)
		}
	}
	upstream := proxy.Upstream{Server: "http://here.test:" + port} // a name that resolves to the denied address
	lie := resolver(t, map[string]string{"here.test.": "127.0.0.1"})
	f, _ = startWithResolver(t, behind, lie)
	if err := f.SetUpstream(&upstream); err != nil {
		t.Fatal(err)
	}
	if answer, _ := do(t, clientOf(t, f), "GET", "http://site.test/", ""); answer.StatusCode != http.StatusBadGateway || len(visited) > 0 {
		t.Errorf("%s, %d visits", answer.Status, len(visited))
	}
}
