package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/proxy"
)

// assertPreflight fails unless the outcome is exactly one of no error,
// ErrCredentials and ErrUnreachable, with no secret in its text.
func assertPreflight(t *testing.T, to proxy.Upstream, want error) {
	t.Helper()
	f, _ := start(t, to)
	begin := time.Now()
	err := f.Preflight(t.Context())
	if took := time.Since(begin); took > 6*time.Second {
		t.Errorf("it took %v", took)
	}
	for _, kind := range []error{proxy.ErrCredentials, proxy.ErrUnreachable} {
		if errors.Is(err, kind) != errors.Is(want, kind) {
			t.Errorf("preflight: %v, want %v", err, want)
		}
	}
	if want == nil && err != nil {
		t.Errorf("preflight: %v, want none", err)
	}
	if err != nil {
		assertNoSecret(t, err.Error(), to)
	}
}

func TestPreflightOfRealProxies(t *testing.T) {
	for _, kind := range []string{"http", "socks5"} {
		real := testenv.StartProxy(t, kind)
		for name, c := range map[string]struct {
			user, password string
			want           error
		}{
			"right":          {real.Username, real.Password, nil},
			"wrong password": {real.Username, "no-such-password", proxy.ErrCredentials},
			"wrong user":     {"nobody-knows", real.Password, proxy.ErrCredentials},
			"missing":        {"", "", proxy.ErrCredentials},
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				assertPreflight(t, proxy.Upstream{Server: real.URL, Username: c.user, Password: c.password}, c.want)
			})
		}
	}
}

func TestPreflightOfEveryKindAsksForNothingThatExists(t *testing.T) {
	origin := listenLoopback(t)
	visited := make(chan struct{}, 10)
	go serve(origin, func(c net.Conn) error {
		_, err := io.Copy(io.Discard, c) // until it is closed
		visited <- struct{}{}
		return err
	})
	for _, kind := range kinds {
		o := newOutside(t, kind, "127.0.0.1:1") // answers 503, or has said enough by then
		assertPreflight(t, o.Upstream, nil)
		wrong := o.Upstream
		wrong.Password = "no-such-password"
		assertPreflight(t, wrong, proxy.ErrCredentials)
		missing := o.Upstream
		missing.Username, missing.Password = "", ""
		assertPreflight(t, missing, proxy.ErrCredentials)
		if _, targets, _ := o.seen(); kind == "socks5" && len(targets) != 2 || kind != "socks5" && targets[0] != "preflight.invalid:443" {
			t.Errorf("%s was asked for %q", kind, targets)
		}
		// A tunnel that is opened is closed again.
		assertPreflight(t, newOutside(t, "http", origin.Addr().String()).Upstream, nil)
	}
	eventually(t, 5*time.Second, "each is closed", func() bool { return len(visited) == len(kinds) })
}

func TestPreflightOfWhatIsNotThere(t *testing.T) {
	gone := listenLoopback(t)
	gone.Close()
	silent := listenLoopback(t)
	plain := newOutside(t, "http", "127.0.0.1:1")
	for name, server := range map[string]string{
		"http dead port":    "http://" + gone.Addr().String(),
		"https dead port":   "https://" + gone.Addr().String(),
		"socks5 dead port":  "socks5://" + gone.Addr().String(),
		"http black hole":   "http://" + deaf(t),
		"http silent":       "http://" + silent.Addr().String(),
		"https silent":      "https://" + silent.Addr().String(),
		"socks5 silent":     "socks5://" + silent.Addr().String(),
		"unknown name":      "http://proxy.invalid:3128",
		"no TLS there":      "https://" + hostOf(t, plain.Server),
		"HTTP, no SOCKS":    "socks5://" + hostOf(t, plain.Server),
		"unknown authority": newOutside(t, "https", "127.0.0.1:1").Server,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assertPreflight(t, proxy.Upstream{Server: server, Username: username, Password: password}, proxy.ErrUnreachable)
		})
	}
}

func TestPreflightTellsNothingThatAProxyRepeats(t *testing.T) {
	l := listenLoopback(t)
	go serve(l, func(c net.Conn) error {
		asked, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return err
		}
		_, err = io.WriteString(c, "HTTP/1.1 200 OK\r\n"+asked.Header.Get("Proxy-Authorization")+"\r\n\r\n")
		return err
	})
	assertPreflight(t, proxy.Upstream{Server: "http://" + l.Addr().String(), Username: username, Password: password}, proxy.ErrUnreachable)
}

func TestPreflightEndsWithItsCallerAndWithClose(t *testing.T) {
	silent := listenLoopback(t)
	for name, end := range map[string]func(context.CancelFunc, *proxy.Forwarder){
		"caller": func(cancel context.CancelFunc, _ *proxy.Forwarder) { cancel() },
		"close":  func(_ context.CancelFunc, f *proxy.Forwarder) { f.Close() },
	} {
		f, err := proxy.Start(proxy.Upstream{Server: "http://" + silent.Addr().String()}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.Close)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, func() { end(cancel, f) })
		begin := time.Now()
		err = f.Preflight(ctx)
		if took := time.Since(begin); err == nil || took > 2*time.Second {
			t.Errorf("%s: %v after %v", name, err, took)
		}
		if errors.Is(err, context.Canceled) != (name == "caller") || errors.Is(err, proxy.ErrUnreachable) != (name == "close") {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

func TestAnUpstreamUnderThePolicyIsNotContacted(t *testing.T) {
	to := proxy.Upstream{Policy: policy(t, proxy.DefaultPolicy+",127.0.0.0/8,::1")}
	for _, to.Server = range []string{"http://169.254.169.254", "socks5://2852039166:80", "https://[::ffff:169.254.169.254]:80", "http://metadata.google.internal:80"} {
		if f, err := proxy.Start(to, slog.New(slog.DiscardHandler)); !errors.Is(err, proxy.ErrDenied) {
			t.Errorf("%s: %v", to.Server, err)
			if err == nil {
				f.Close()
			}
		}
	}
	l := listenLoopback(t)
	visited := make(chan struct{}, 10)
	go serve(l, func(net.Conn) error { visited <- struct{}{}; return nil })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	to.Server = "http://localhost:" + port // a name that leads there
	f, _ := start(t, to)
	if err := f.Preflight(t.Context()); !errors.Is(err, proxy.ErrDenied) || !errors.Is(err, proxy.ErrUnreachable) {
		t.Errorf("preflight: %v", err)
	}
	if answer, _ := do(t, through(t, f), "GET", "http://site.test/", ""); answer.StatusCode != http.StatusBadGateway || len(visited) > 0 {
		t.Errorf("%s, %d visits", answer.Status, len(visited))
	}
}
