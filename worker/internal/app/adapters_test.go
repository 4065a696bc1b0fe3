package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"testing"

	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/proxy"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// failingLauncher opens a browser's debug port and then fails the launch.
type failingLauncher struct {
	launch.Launcher
	open func(address string)
}

var errNotReady = errors.New("not ready")

func (e failingLauncher) Launch(_ context.Context, spec browser.Spec) (*browser.Browser, error) {
	l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", spec.DebugPort))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	e.open(l.Addr().String())
	return nil, errNotReady
}

func TestDenylistLauncher_HidesDebugPortBeforeItOpens(t *testing.T) {
	wall, err := proxy.NewEgressPolicy(proxy.Rules{AllowLocal: true})
	if err != nil {
		t.Fatal(err)
	}
	f, err := proxy.Start(wall, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	way, err := url.Parse(f.Address())
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return way, nil }}}
	t.Cleanup(client.CloseIdleConnections)
	var port string
	_, err = denylistLauncher{failingLauncher{open: func(address string) {
		port = address
		answer, err := client.Get("http://" + address + "/json/version")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden {
			t.Errorf("a page got status %s", answer.Status)
		}
	}}, wall}.Launch(t.Context(), browser.Spec{})
	if !errors.Is(err, errNotReady) || port == "" {
		t.Fatalf("%v, at %q", err, port)
	}
	if answer, err := client.Get("http://" + port); err == nil { // the connection fails, and the policy does not deny it
		answer.Body.Close()
		t.Errorf("after a failed launch: got status %s, want no connection", answer.Status)
	}
}

// takenPortLauncher finds each debug port taken by another program.
type takenPortLauncher struct {
	launch.Launcher
	t     *testing.T
	ports map[int]bool
}

func (l takenPortLauncher) Launch(_ context.Context, spec browser.Spec) (*browser.Browser, error) {
	l.ports[spec.DebugPort] = true
	other, err := net.Listen("tcp4", fmt.Sprint("127.0.0.1:", spec.DebugPort))
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { other.Close() })
	_, err = net.Listen("tcp4", other.Addr().String())
	return nil, fmt.Errorf("launch: %w", err)
}

func TestDenylistLauncher_TriesAnotherPortIfTaken(t *testing.T) {
	policy, err := proxy.NewEgressPolicy(proxy.Rules{AllowLocal: true})
	if err != nil {
		t.Fatal(err)
	}
	l := takenPortLauncher{t: t, ports: map[int]bool{}}
	if _, err := (denylistLauncher{l, policy}).Launch(t.Context(), browser.Spec{}); !errors.Is(err, syscall.EADDRINUSE) || len(l.ports) != maxPortAttempts {
		t.Errorf("%v, after %d ports", err, len(l.ports))
	}
}
