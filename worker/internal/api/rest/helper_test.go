package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/worker/internal/api/rest"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/browser/bundle"
	"github.com/browser-svc/svc/worker/internal/browser/extension"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
	"github.com/browser-svc/svc/worker/internal/host/fleet"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/activity"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

const key = "worker-key-of-this-test"

var started = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// launches is a fake of the launch service.
type launches struct {
	sessions *session.Store
	requests []launch.Request
	updates  []launch.Update
	err      error
	traffic  [2]int64
	draining bool
}

func (l *launches) Launch(_ context.Context, request launch.Request) (session.Session, error) {
	l.requests = append(l.requests, request)
	if l.err != nil {
		return session.Session{}, l.err
	}
	return l.add(started), nil
}

func (l *launches) add(startedAt time.Time) session.Session {
	return l.sessions.Add(session.Session{
		ID: uuid.Must(uuid.NewV7()), LaunchID: uuid.Must(uuid.NewV7()), ProfileID: uuid.Must(uuid.NewV7()), ProfileName: "Checkout",
		BrowserVersion: 156, Engine: "chromium", Headless: true, DevTools: true, DebugPort: 41873, DebugPath: "/devtools/browser/5f1c6c0e-58f8", StartedAt: startedAt,
		Metadata: map[string]string{"team": "checkout"}, Bundle: session.Bundle{Filename: "pixel-9.json", Name: "Google Pixel 9"}, Start: session.Start{ColdReasons: []string{"persist"}},
		Timeline: []session.Step{{Name: session.Asked, At: startedAt}, {Name: session.Authorized, At: startedAt.Add(2500 * time.Microsecond)}},
	})
}

func (l *launches) Kill(_ context.Context, id uuid.UUID) (session.Session, error) {
	found, ok := l.sessions.Get(id)
	if !ok {
		return session.Session{}, fault.Missing("session")
	}
	if ended, first := l.sessions.End(id, session.End{At: started.Add(time.Minute), Status: session.Killed, Reason: session.ByRequest}); first {
		found = ended
	}
	return found, nil
}

func (l *launches) Update(id uuid.UUID, update launch.Update) (session.Session, error) {
	l.updates = append(l.updates, update)
	found, ok := l.sessions.Get(id)
	if !ok {
		return session.Session{}, fault.Missing("session")
	}
	if l.err != nil {
		return session.Session{}, l.err
	}
	if renamed, ok := l.sessions.Relabel(id, update.Name, update.Metadata); ok {
		found = renamed
	}
	return found, nil
}

func (l *launches) Traffic(uuid.UUID) (received, sent int64, ok bool) {
	return l.traffic[0], l.traffic[1], l.traffic != [2]int64{}
}

func (l *launches) Network(id uuid.UUID) (session.Network, error) {
	found, ok := l.sessions.Get(id)
	if !ok {
		return session.Network{}, fault.Missing("session")
	}
	return session.Network{Hosts: []session.NetworkHost{}, NetworkTotals: found.Network.NetworkTotals}, nil
}

func (l *launches) Running(launchID uuid.UUID) (launch.Running, bool) {
	found, ok := l.sessions.ByLaunch(launchID)
	return launch.Running{Session: found, Activity: activity.New(clock.NewFake(started))}, ok && found.Status == session.Running
}

func (l *launches) Counts() (running, launching int) {
	live, _ := l.sessions.Live()
	return len(live), 2
}

func (l *launches) Drain()         { l.draining = true }
func (l *launches) Resume()        { l.draining = false }
func (l *launches) Draining() bool { return l.draining }

// host is a machine with fixed facts and a fixed sample.
type host struct{}

func (h *host) Facts() fleet.Facts {
	return fleet.Facts{Hostname: "one", OS: "linux", Arch: "amd64", Kernel: "6.1", CPUs: 1.5, MemoryBytes: 1000}
}

func (h *host) Last() fleet.Sample {
	return fleet.Sample{At: started, CPUPercent: 12.5, MemoryPercent: 100.0001, MemoryUsedBytes: 900, MemoryLimitBytes: 1000, Load1: 0.5, DiskFreeBytes: 5}
}

// storedExtension is the only extension.
var storedExtension = extension.Extension{
	ID: strings.Repeat("0a", 32), ChromiumID: strings.Repeat("ap", 16), Name: "Notes", Version: "1.4.0", ManifestVersion: 3, Size: 7, CreatedAt: started,
}

// extensions is a store with storedExtension.
type extensions struct{}

func (extensions) Add(_ context.Context, packed io.Reader) (extension.Extension, error) {
	_, err := io.Copy(io.Discard, packed)
	return storedExtension, err
}
func (extensions) Get(string) (extension.Extension, error) { return storedExtension, nil }
func (extensions) List() []extension.Extension             { return []extension.Extension{storedExtension} }
func (extensions) Delete(string) error                     { return nil }

type fixedBuilds []builds.Build

func (b fixedBuilds) Find(context.Context) ([]builds.Build, error) { return b, nil }

type testServer struct {
	*launches
	cloud       rest.CloudContract
	unavailable []httpd.Reason // reasons other than draining
	state       string         // of the license
	fullAt      time.Time
	server      *rest.Server
	host        *host
	tokens      *ticket.Tickets
	clock       *clock.Fake
	url         string
	client      *http.Client
}

func newTestServer(t *testing.T, public string) *testServer {
	t.Helper()
	base, err := url.Parse(public)
	if err != nil {
		t.Fatal(err)
	}
	document := contracttest.Load(t, "worker.yaml")
	right, _ := access.NewKey(key, "")
	now := clock.NewFake(started)
	tokens := ticket.New(now)
	console := access.Console{Address: access.NewAddress(base), Tokens: tokens}
	guard, err := oapi.NewGuard(document.Document, oapi.Options{Authenticators: map[string]oapi.Authenticator{
		"workerKey": right.Authenticate, "consoleCookie": console.Authenticate, "recordingCookie": noRecording,
	}})
	if err != nil {
		t.Fatal(err)
	}
	r := &testServer{state: "ok", cloud: rest.CloudContract{Expected: "7.8.9", Fit: "unheard"}, tokens: tokens, clock: now, host: &host{}, launches: &launches{sessions: session.NewStore(now)}}
	bundles, err := bundle.Load("")
	if err != nil {
		t.Fatal(err)
	}
	r.server = &rest.Server{
		Launches: r.launches, Sessions: r.sessions, Bundles: bundles, Extensions: extensions{}, Host: r.host,
		Links:   access.Links{Address: access.NewAddress(base), Tokens: r.tokens},
		Console: console,
		Identity: rest.Identity{
			WorkerID: "worker-1", MachineID: "machine-1", StartedAt: started, MaxSessions: 8, HasKey: true,
			LastAnswerAt: func() time.Time { return started }, FullAt: func() time.Time { return r.fullAt }, License: func() string { return r.state },
			CloudContract: func() rest.CloudContract { return r.cloud },
			Reports:       func() (waiting, rejected int) { return 2, 1 },
		},
		Readiness: httpd.NewReadiness(nil, func(context.Context) []httpd.Reason {
			if r.draining {
				return append([]httpd.Reason{{Check: httpd.Draining, Code: httpd.Draining, Message: "This worker is draining."}}, r.unavailable...)
			}
			return r.unavailable
		}),
		Version: "1.2.3", ContractVersion: "4.5.6",
		MissingScripts: func() *[]string { return &[]string{"emoji", "thai"} },
		Isolation: func() sandbox.Report {
			return sandbox.Report{Pieces: []sandbox.Piece{{Name: "userId", On: true}, {Name: "memoryLimit", Reason: "no controller"}}}
		},
		WarmPool: func() rest.WarmPoolState {
			kind := rest.WarmKind{BrowserVersion: 156, Engine: "chromium", Headless: true}
			return rest.WarmPoolState{
				Size: 2, MaxSize: 8, Target: 4, TargetReason: "demand", Ready: []rest.WarmBrowsers{{WarmKind: kind, Count: 2}},
				Demand: []rest.WarmDemand{
					{WarmKind: kind, LaunchesPerMinute: 90, StartTime: 540 * time.Millisecond, Target: 4},
					{WarmKind: kind},
				},
				Starting: 1, Memory: 200 << 20, Warm: 41,
				Cold: map[string]int64{"persist": 2, "args": 1}, Died: 3, Stale: 4,
			}
		},
		Builds: fixedBuilds{{Major: 156, Version: "156.0.1.2", Engine: builds.Chromium, Headful: true, DevTools: true, Extensions: true}, {Major: 156, Version: "156.0.1.1", Engine: builds.HeadlessShell}, {Major: 91, Version: "91.0.0.0", Engine: builds.HeadlessShell}},
	}
	e := httpd.New(httpd.Options{Document: document})
	e.Use(guard.Middleware())
	workerapi.RegisterHandlers(e, workerapi.NewStrictHandler(r.server, nil))
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	r.url, r.client = server.URL, contracttest.New(t, document, nil)
	return r
}

// call sends a request with the worker key; an empty body sends none. It decodes the
// answer into out unless that is nil.
func (r *testServer) call(ctx context.Context, t *testing.T, method, path, body string, out any) *http.Response {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = bytes.NewBufferString(body)
	}
	request, err := http.NewRequestWithContext(ctx, method, r.url+path, reader)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-API-Key", key)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			t.Fatalf("%s %s: got %d %s: %v", method, path, answer.StatusCode, text, err)
		}
	}
	return answer
}

type failure struct {
	Error struct {
		Code    string         `json:"code"`
		Details []fault.Detail `json:"details"`
	} `json:"error"`
}

// noRecording authenticates the cookie of a recording, which no request of these tests has.
func noRecording(*http.Request) (context.Context, error) { return nil, oapi.ErrNoCredential }
