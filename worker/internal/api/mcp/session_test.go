package mcp_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/api/mcp"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// launches records launches and ends without browsers.
type launches struct {
	mu      sync.Mutex
	running map[uuid.UUID]bool
	hold    chan struct{} // if set, launches wait until it is closed
	started chan struct{}
}

func (*launches) VerifyKey(context.Context, launch.Request) error { return nil }

func (l *launches) Launch(context.Context, launch.Request) (session.Session, error) {
	if l.hold != nil {
		close(l.started)
		<-l.hold
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	id := uuid.New()
	l.running[id] = true
	return session.Session{LaunchID: id, ProfileName: "Test"}, nil
}

func (l *launches) KillLaunch(_ context.Context, id uuid.UUID, _ session.EndReason) (session.Session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running[id] {
		return session.Session{}, errors.New("killed twice")
	}
	delete(l.running, id)
	return session.Session{}, nil
}

func (l *launches) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.running)
}

// Find implements access.Finder: these tests use no pages.
func (*launches) Find(string) (access.Browser, bool) { return access.Browser{}, false }

// serve serves /mcp and returns its URL.
func serve(t *testing.T, l *launches, change func(*mcp.Options)) string {
	t.Helper()
	l.running = map[uuid.UUID]bool{}
	server := httptest.NewUnstartedServer(nil)
	options := mcp.Options{
		Launches: l, Browsers: l, Address: access.NewAddress(&url.URL{Scheme: "http", Host: server.Listener.Addr().String()}),
		WorkerKey: func(key string) bool { return key == "worker" }, Logger: slog.New(slog.DiscardHandler),
		Parse: func([]byte) (launch.Request, error) { return launch.Request{}, nil },
	}
	change(&options)
	s := mcp.New(options)
	e := httpd.New(httpd.Options{Logger: options.Logger, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	s.Register(e)
	server.Config.Handler = e
	server.Start()
	t.Cleanup(func() { s.Close(); server.Close() })
	return server.URL + "/mcp"
}

type keyTransport string

func (k keyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-API-Key", string(k))
	return http.DefaultTransport.RoundTrip(r)
}

func connect(t *testing.T, address, key string) (*sdk.ClientSession, error) {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	s, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: address, HTTPClient: &http.Client{Transport: keyTransport(key)}}, nil)
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

func mustConnect(t *testing.T, address, key string) *sdk.ClientSession {
	t.Helper()
	s, err := connect(t, address, key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSession_IdleSessionEndsItsBrowsers(t *testing.T) {
	var l launches
	address := serve(t, &l, func(o *mcp.Options) { o.IdleTimeout = 300 * time.Millisecond })
	s := mustConnect(t, address, "worker")
	if answer, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "launch_browser"}); err != nil || answer.IsError {
		t.Fatalf("%v %v", answer, err)
	}
	testenv.Eventually(t, "the browser ends", func() bool { return l.count() == 0 })
	if _, err := s.ListTools(t.Context(), nil); err == nil {
		t.Error("the session continues")
	}
}

func TestSession_NumberIsBounded(t *testing.T) {
	var l launches
	address := serve(t, &l, func(o *mcp.Options) { o.MaxSessions = 2 })
	first := mustConnect(t, address, "worker")
	mustConnect(t, address, "other")
	if _, err := connect(t, address, "third"); err == nil || !strings.Contains(err.Error(), "Service Unavailable") {
		t.Errorf("a third session: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "a free session", func() bool { _, err := connect(t, address, "third"); return err == nil })
}

func TestSession_NumberPerKeyIsBounded(t *testing.T) {
	var l launches
	address := serve(t, &l, func(*mcp.Options) {})
	for range 100 {
		mustConnect(t, address, "one")
	}
	if _, err := connect(t, address, "one"); err == nil || !strings.Contains(err.Error(), "Service Unavailable") {
		t.Errorf("session 101: %v", err)
	}
	mustConnect(t, address, "other")
}

// keyChecks is a cloud that accepts the keys that begin with good.
type keyChecks struct {
	launch.License
	refused atomic.Int64
}

func (k *keyChecks) VerifyKey(_ context.Context, key session.OrganizationKey) error {
	if strings.HasPrefix(key.Reveal(), "good") {
		return nil
	}
	k.refused.Add(1)
	return fault.New(fault.Unauthenticated, "The organization key is not valid.")
}

// checkedLaunches verifies keys as the worker does, with its limits for wrong keys.
type checkedLaunches struct {
	*launches
	keys *launch.Service
}

func (l checkedLaunches) VerifyKey(ctx context.Context, r launch.Request) error {
	return l.keys.VerifyKey(ctx, r)
}

// TestSession_WrongKeysTakeNoPlace floods the worker with wrong keys from many addresses, whose
// refusals are delayed.
func TestSession_WrongKeysTakeNoPlace(t *testing.T) {
	const addresses, perAddress, limit = 40, 20, 50
	var l launches
	keys := &keyChecks{}
	address := serve(t, &l, func(o *mcp.Options) {
		o.Launches, o.MaxSessions = checkedLaunches{&l, launch.New(launch.Options{License: keys, Clock: clock.System{}})}, limit
	})
	ctx, cancel := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	defer flood.Wait()
	defer cancel()
	for i := range addresses * perAddress {
		flood.Go(func() {
			for ctx.Err() == nil {
				sendWrongKey(ctx, t, address, fmt.Sprintf("192.0.2.%d", i%addresses+1))
			}
		})
	}
	testenv.Eventually(t, "the refusals are delayed", func() bool { return keys.refused.Load() >= addresses*5+limit })
	for i := range 10 {
		mustConnect(t, address, fmt.Sprint("good", i))
	}
}

func sendWrongKey(ctx context.Context, t *testing.T, address, client string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, nil)
	if err != nil {
		t.Error(err)
		return
	}
	request.Header.Set("X-Forwarded-For", client)
	answer, err := (&http.Client{Transport: keyTransport("svc_" + rand.Text())}).Do(request)
	if err == nil {
		_ = answer.Body.Close()
	}
}

func TestSession_LaunchThatOutlivesItsSessionIsEnded(t *testing.T) {
	l := launches{hold: make(chan struct{}), started: make(chan struct{})}
	address := serve(t, &l, func(*mcp.Options) {})
	s := mustConnect(t, address, "worker")
	called := make(chan struct{})
	go func() {
		defer close(called)
		_, _ = s.CallTool(context.WithoutCancel(t.Context()), &sdk.CallToolParams{Name: "launch_browser"})
	}()
	<-l.started
	ended := make(chan struct{})
	go func() { defer close(ended); end(t, address, s.ID()) }()
	time.Sleep(50 * time.Millisecond) // most likely, the end of the session arrives first
	close(l.hold)
	<-ended
	<-called
	testenv.Eventually(t, "the browser ends", func() bool { return l.count() == 0 })
}

// end ends a session.
func end(t *testing.T, address, id string) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, address, nil)
	if err != nil {
		t.Error(err)
		return
	}
	request.Header.Set("Mcp-Session-Id", id)
	answer, err := (&http.Client{Transport: keyTransport("worker")}).Do(request)
	if err != nil || answer.StatusCode != http.StatusNoContent {
		t.Errorf("end: %v %v", answer, err)
		return
	}
	_ = answer.Body.Close()
}

func TestTools_SayWhatTheyDo(t *testing.T) {
	s := mustConnect(t, serve(t, &launches{}, func(*mcp.Options) {}), "worker")
	listed, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{}
	for _, tool := range listed.Tools {
		a := tool.Annotations
		switch {
		case a == nil || a.DestructiveHint == nil || a.ReadOnlyHint && *a.DestructiveHint:
			t.Errorf("%s does not say what it does: %+v", tool.Name, a)
		case a.ReadOnlyHint:
			kinds[tool.Name] = "reads"
		case *a.DestructiveHint:
			kinds[tool.Name] = "destroys"
		default:
			kinds[tool.Name] = "adds"
		}
	}
	for tool, want := range map[string]string{
		"snapshot": "reads", "read_page": "reads", "screenshot": "reads", "list_tabs": "reads", "navigate": "adds", "launch_browser": "adds", "hover": "adds",
		"click": "destroys", "evaluate": "destroys", "type": "destroys", "end_browser": "destroys", "close_tab": "destroys",
	} {
		if kinds[tool] != want {
			t.Errorf("%s %s, want %s", tool, kinds[tool], want)
		}
	}
}
