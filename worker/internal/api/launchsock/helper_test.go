package launchsock_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/api/launchsock"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/cloud"
	"github.com/browser-svc/svc/worker/internal/cloud/report"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// callersKey is a caller's key, not the worker's.
const callersKey = "svc_callerscallerscallerscallerscalle"

// fixture serves /launch with real parts and a fake cloud.
type fixture struct {
	*launchsock.Service
	launches *launch.Service
	sessions *session.Store
	tickets  *ticket.Tickets
	cloud    *cloudtest.Cloud
	build    builds.Build
	profile  uuid.UUID
	address  string // host:port
	dir      string
	log      *testenv.Log

	// Hooks, set before a client connects; optional.
	beforeRecord func()        // called before an end is recorded
	answered     chan struct{} // until it is closed, the worker is held after it has sent the answer of a launch
	cuts         chan struct{} // until it is closed, the worker does not read the end of a client
}

// directEgress is the egress of browsers without a proxy.
type directEgress struct{}

func (directEgress) Open(context.Context) (launch.Egress, error)             { return directEgress{}, nil }
func (directEgress) Check(context.Context, settings.Proxy) error             { return io.ErrUnexpectedEOF }
func (directEgress) SetRules(*netrules.Policy)                               {}
func (directEgress) Address() string                                         { return "" }
func (directEgress) SetUpstream(*settings.Proxy) error                       { return nil }
func (directEgress) MoveTo(net.Listener)                                     {}
func (directEgress) OpenContextProxy(string, string) (string, func(), error) { return "", nil, nil }
func (directEgress) PresentCertificates(map[string]tls.Certificate, []*x509.Certificate, bool) (*x509.Certificate, error) {
	return nil, nil
}
func (directEgress) Restrict(int)                         {}
func (directEgress) Network(int) session.Network          { return session.Network{} }
func (directEgress) CountDenied(string, netrules.Verdict) {}
func (directEgress) Counts() (received, sent int64)       { return 0, 0 }
func (directEgress) Close()                               {}

// newFixture returns a fixture whose worker has no organization key.
func newFixture(t testing.TB) *fixture {
	t.Helper()
	w := &fixture{cloud: cloudtest.New(t), sessions: session.NewStore(clock.System{}), tickets: ticket.New(clock.System{}), log: &testenv.Log{}}
	w.cloud.AddKey(callersKey)
	w.dir = testenv.PublicTempDir(t)
	log := slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	found, err := builds.NewFinder(builds.FindOptions{}).Find(t.Context())
	if err != nil || len(found) == 0 {
		t.Fatalf("no Chromium is installed; these tests need one (%v)", err)
	}
	w.build = found[0]
	w.profile = w.cloud.Profile(w.build.Major)
	launcher, err := browser.NewLauncher(browser.Options{Dir: filepath.Join(w.dir, "launches"), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = launcher.Close() })
	client, err := cloud.New(w.cloud.URL, "", cloud.Machine{ID: "worker-1", BootID: uuid.Must(uuid.NewV7())}, nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	reporter, err := report.New(client, w.sessions, filepath.Join(w.dir, "reports"), log)
	if err != nil {
		t.Fatal(err)
	}
	w.launches = launch.New(launch.Options{
		License: client, Reports: reports{reporter, w}, Builds: fakeBuilds{w.build}, Launcher: launcher, Sessions: w.sessions,
		Clock: clock.System{}, Logger: log,
		Egress: directEgress{}, Tokens: w.tickets,
	})
	w.serve(t, log)
	run(t, reporter.Run)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := w.launches.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		w.Close()
	})
	return w
}

func (w *fixture) serve(t testing.TB, log *slog.Logger) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	w.address = server.Listener.Addr().String()
	server.Listener = listener{server.Listener, w}
	w.Service = launchsock.New(launchsock.Options{
		Launches: w.launches, Parse: parse, Logger: log, Recording: func(session.Session) *workerapi.Recording { return nil },
		Links: access.Links{Address: access.NewAddress(&url.URL{Scheme: "http", Host: w.address}), Tokens: w.tickets},
	})
	e := httpd.New(httpd.Options{Logger: log})
	w.Register(e)
	server.Config.Handler = e
	server.Start()
	t.Cleanup(server.Close)
}

func run(t testing.TB, work func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); work(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

type fakeBuilds []builds.Build

func (b fakeBuilds) Find(context.Context) ([]builds.Build, error) { return b, nil }

// parse reads the parts of a launch that these tests set.
func parse(body []byte) (launch.Request, error) {
	var message struct {
		ProfileID *uuid.UUID
		Browser   struct {
			Headless  *bool
			KeepAlive bool
			IdleMs    int
		}
	}
	if err := json.Unmarshal(body, &message); err != nil || message.ProfileID == nil {
		return launch.Request{}, fault.Invalid(fault.Detail{Field: "profileId", Code: fault.InvalidUnion, Message: "exactly one of profileId and spec"})
	}
	request := launch.Request{
		ProfileID: message.ProfileID, Headless: message.Browser.Headless == nil || *message.Browser.Headless, KeepAlive: message.Browser.KeepAlive,
		Timeout: 20 * time.Second,
	}
	request.DefaultIdle = time.Duration(message.Browser.IdleMs) * time.Millisecond
	return request, nil
}

func key(value string) http.Header { return http.Header{"X-Api-Key": {value}} }

// envOf returns a launch with its key, for ?env=.
func (w *fixture) envOf(settings string) string {
	return `{"SVC_KEY":"` + callersKey + `","profileId":"` + w.profile.String() + `","browser":{` + settings + `}}`
}

func (w *fixture) url(query url.Values) string {
	return "ws://" + w.address + "/launch?" + query.Encode()
}

func (w *fixture) dial(t testing.TB, query url.Values, header http.Header) *ws.Conn {
	t.Helper()
	conn, err := ws.Dial(t.Context(), w.url(query), header, ws.Options{ReadLimit: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	return conn
}

// open launches with these browser settings in ?env=.
func (w *fixture) open(t testing.TB, settings string) *ws.Conn {
	t.Helper()
	return w.dial(t, url.Values{"env": {base64.RawURLEncoding.EncodeToString([]byte(w.envOf(settings)))}}, nil)
}

type answer struct {
	ID        int
	Method    string
	SessionID string
	Result    map[string]any
	Error     *struct {
		Code    int
		Message string
	}
}

func send(t testing.TB, conn *ws.Conn, message string) {
	t.Helper()
	if err := conn.Write(t.Context(), ws.Text, []byte(message)); err != nil {
		t.Fatal(err)
	}
}

// next returns the next answer and skips events.
func next(t testing.TB, conn *ws.Conn) answer {
	t.Helper()
	for {
		_, message, err := conn.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var a answer
		if err := json.Unmarshal(message, &a); err != nil {
			t.Fatalf("%s: %v", message, err)
		}
		if a.Method == "" {
			return a
		}
	}
}

func call(t testing.TB, conn *ws.Conn, message string) answer {
	t.Helper()
	send(t, conn, message)
	return next(t, conn)
}

// closeStatus reads until the connection is closed.
func closeStatus(t testing.TB, conn *ws.Conn) (ws.Status, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		if _, _, err := conn.Read(ctx); err != nil {
			return ws.CloseStatus(err), err.Error()
		}
	}
}

// onlySession returns the only running session.
func (w *fixture) onlySession(t testing.TB) session.Session {
	t.Helper()
	live, _ := w.sessions.Live()
	if len(live) != 1 {
		t.Fatalf("%d sessions run", len(live))
	}
	return live[0]
}

func (w *fixture) awaitEnd(t testing.TB, id uuid.UUID, status session.Status, reason session.EndReason) {
	t.Helper()
	testenv.Eventually(t, "the session ends", func() bool {
		got, _ := w.sessions.Get(id)
		return got.Status != session.Running
	})
	if got, _ := w.sessions.Get(id); got.Status != status || got.EndReason != reason {
		t.Errorf("the session ended as %s/%s, want %s/%s", got.Status, got.EndReason, status, reason)
	}
	w.cloud.Await(t, 0, 0)
}

// raw opens a WebSocket and returns its raw connection.
func (w *fixture) raw(t testing.TB) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", w.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, "GET /launch?profileId="+w.profile.String()+" HTTP/1.1\r\nHost: "+w.address+
		"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nX-API-Key: "+callersKey+"\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func assertNoSecrets(t testing.TB, w *fixture) {
	t.Helper()
	for _, secret := range []string{callersKey, callersKey[4:20], base64.RawURLEncoding.EncodeToString([]byte(callersKey))[4:20], "eyJhbGciOi"} {
		if strings.Contains(w.log.String(), secret) {
			t.Errorf("the log contains a secret:\n%s", w.log)
		}
	}
}
