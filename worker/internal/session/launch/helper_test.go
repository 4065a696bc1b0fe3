package launch_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// fakeCloud grants or refuses launches and records its calls.
type fakeCloud struct {
	mu            sync.Mutex
	profile       launch.Profile // the profile of grants
	refusal       error
	onStart       error
	starting      func()                    // called while a start is reported
	entered       func(ctx context.Context) // called before an authorization is answered
	requests      []launch.Authorization
	started       []session.Session
	ended         []launch.Ended
	changed       []session.Session
	events        []session.Event
	eventSessions []session.Session
	carried       map[uuid.UUID]bool // by session
	decide        func(launch.Authorization) (full bool, err error)
	withoutConfig bool        // grants come without the configuration
	configs       []uuid.UUID // requested by separate calls
	noConfig      error
	endedNow      chan struct{} // one for each end
	queued        int           // refused requests that keep their place
	verified      []string      // keys
	keyRefusal    error
}

func (c *fakeCloud) Authorize(ctx context.Context, request launch.Authorization) (launch.Grant, error) {
	if c.entered != nil {
		c.entered(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, request)
	if c.refusal != nil {
		c.queued--
		return launch.Grant{Queued: c.queued >= 0}, c.refusal
	}
	full, slot := false, uuid.New()
	if c.decide != nil {
		var err error
		if full, err = c.decide(request); err != nil {
			return launch.Grant{}, err
		}
	}
	if c.withoutConfig {
		return launch.Grant{SlotID: &slot}, nil
	}
	granted := c.profile
	if request.ProfileID != nil {
		granted.ID = *request.ProfileID
	}
	return launch.Grant{SlotID: &slot, Profile: granted, Full: full}, nil
}

func (c *fakeCloud) VerifyKey(_ context.Context, key session.OrganizationKey) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.verified = append(c.verified, key.Reveal())
	return c.keyRefusal
}

func (c *fakeCloud) Started(ctx context.Context, s session.Session) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started = append(c.started, s)
	if c.starting != nil {
		c.starting()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.onStart
}

func (c *fakeCloud) Changed(s session.Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed = append(c.changed, s)
}

func (c *fakeCloud) Happened(s session.Session, e session.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.eventSessions, c.events = append(c.eventSessions, s), append(c.events, e)
}

func (c *fakeCloud) Ended(ended launch.Ended) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = append(c.ended, ended)
	c.endedNow <- struct{}{}
}

func (c *fakeCloud) ends() []launch.Ended {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.ended)
}

type fakeBuilds []builds.Build

func (b fakeBuilds) Find(context.Context) ([]builds.Build, error) { return b, nil }

// recordingLauncher is a Launcher that starts no browser and records the spec.
type recordingLauncher struct{ spec browser.Spec }

func (r *recordingLauncher) Launch(_ context.Context, spec browser.Spec) (*browser.Browser, error) {
	r.spec = spec
	return nil, fmt.Errorf("this launcher starts no browsers")
}

// fixture is a Service with real browsers and a fake cloud.
type fixture struct {
	*launch.Service
	cloud        *fakeCloud
	build        builds.Build
	dir          string
	egresses     sync.Mutex                      // guards the counts of egresses while launches run in parallel
	opened       int                             // number of opened egresses
	upstreams    []string                        // the upstream proxies that were set
	rules        []*netrules.Policy              // the rules that were set
	presented    []string                        // the addresses with client certificates
	authority    *x509.Certificate               // of the certificates that the browser gets for them
	restrictedTo []int                           // the users that egresses were restricted to
	closed       int                             // number of closed egresses
	upstreamErr  error                           // returned by SetUpstream
	checkProxy   func(ctx context.Context) error // checks a proxy; nil: every proxy works
}

func newFixture(t *testing.T, change ...func(*launch.Options)) *fixture {
	t.Helper()
	installed := systemBuilds(t)
	r := &fixture{dir: testenv.PublicTempDir(t), build: installed[0]}
	r.cloud = &fakeCloud{endedNow: make(chan struct{}, 100), profile: launch.Profile{Name: "Checkout", BrowserVersion: r.build.Major}}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	launcher, err := browser.NewLauncher(browser.Options{Dir: r.launches(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = launcher.Close() })
	opts := launch.Options{
		License: r.cloud, Reports: r.cloud, Builds: fakeBuilds(installed), Launcher: launcher, Sessions: session.NewStore(clock.System{}),
		Data: newDataStore(t, filepath.Join(r.dir, "profiles"), log), Clock: clock.System{}, Logger: log,
		Egress: fakeEgressProvider{r}, AutoEngine: !testenv.Full(), // complete browsers take three times as long
	}
	for _, apply := range change {
		apply(&opts)
	}
	r.Service = launch.New(opts)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := r.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		r.assertNoResourcesLeak(t)
	})
	return r
}

func (r *fixture) launches() string { return filepath.Join(r.dir, "launches") }

func byProfile() launch.Request {
	id := uuid.Must(uuid.NewV7())
	return launch.Request{ProfileID: &id, Headless: true, Timeout: 20 * time.Second}
}

func (r *fixture) launch(t *testing.T, request launch.Request) session.Session {
	t.Helper()
	s, err := r.Launch(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// browser returns the browser of a running session.
func (r *fixture) browser(t *testing.T, s session.Session) *browser.Browser {
	t.Helper()
	b, ok := r.Browser(s.LaunchID)
	if !ok {
		t.Fatal("the session has no running browser")
	}
	return b
}

// awaitEnd waits for the next reported end.
func (r *fixture) awaitEnd(t *testing.T, limit time.Duration) launch.Ended {
	t.Helper()
	select {
	case <-r.cloud.endedNow:
		ends := r.cloud.ends()
		return ends[len(ends)-1]
	case <-time.After(limit):
		t.Fatalf("no end was reported within %v", limit)
		return launch.Ended{}
	}
}

func (r *fixture) assertNoResourcesLeak(t *testing.T) {
	t.Helper()
	if left := r.processes(); len(left) > 0 {
		t.Errorf("leaked processes: %v", left)
	}
	if left := r.directories(t); len(left) > 0 {
		t.Errorf("leaked directories: %v", left)
	}
}

// processes returns the processes with the launches' directory on their command line.
func (r *fixture) processes() (found []string) {
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range commands {
		if command, _ := os.ReadFile(file); bytes.Contains(command, []byte(r.dir+"/")) {
			found = append(found, file)
		}
	}
	return found
}

// browsers returns the main processes of browsers. A process that a browser has just forked
// still has its command line, so children of browsers do not count.
func (r *fixture) browsers() (found []string) {
	var candidates []string
	for _, file := range r.processes() {
		if command, _ := os.ReadFile(file); bytes.Contains(command, []byte("--remote-debugging-pipe")) && !bytes.Contains(command, []byte("--type=")) {
			candidates = append(candidates, filepath.Dir(file))
		}
	}
	for _, process := range candidates {
		status, _ := os.ReadFile(filepath.Join(process, "status"))
		_, parent, _ := strings.Cut(string(status), "\nPPid:\t")
		parent, _, _ = strings.Cut(parent, "\n")
		if parent != "" && !slices.Contains(candidates, filepath.Join("/proc", parent)) {
			found = append(found, filepath.Join(process, "cmdline"))
		}
	}
	return found
}

func (r *fixture) directories(t *testing.T) (found []string) {
	t.Helper()
	entries, err := os.ReadDir(r.launches())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			found = append(found, e.Name())
		}
	}
	return found
}

// assertSession checks the listed end of a session.
func (r *fixture) assertSession(t *testing.T, id uuid.UUID, status session.Status, reason session.EndReason, code *int) {
	t.Helper()
	got, ok := r.Sessions.Get(id)
	if !ok {
		t.Fatal("the session is not listed")
	}
	if got.Status != status || got.EndReason != reason || got.EndedAt.Before(got.StartedAt) {
		t.Errorf("the session is %s/%s, ended at %v; want %s/%s", got.Status, got.EndReason, got.EndedAt, status, reason)
	}
	if (got.ExitCode == nil) != (code == nil) || code != nil && *got.ExitCode != *code {
		t.Errorf("exit code %v, want %v", got.ExitCode, code)
	}
}

func assertKind(t *testing.T, err error, kind fault.Kind) *fault.Error {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Fatalf("got error %v, want one with status %d", err, kind.Status())
	}
	return fault.From(err)
}

// systemBuilds returns the installed complete browser and headless shell of one version.
func systemBuilds(t *testing.T) []builds.Build {
	t.Helper()
	found, err := builds.NewFinder(builds.FindOptions{}).Find(t.Context())
	if err != nil || len(found) == 0 {
		t.Fatalf("no Chromium is installed; these tests need one (%v)", err)
	}
	return slices.DeleteFunc(found, func(b builds.Build) bool { return b.Major != found[0].Major })
}

// fakeEgressProvider opens egresses that record their calls.
type fakeEgressProvider struct{ fixture *fixture }

func (w fakeEgressProvider) Check(ctx context.Context, _ settings.Proxy) error {
	if w.fixture.checkProxy == nil {
		return nil
	}
	return w.fixture.checkProxy(ctx)
}

func (w fakeEgressProvider) Open(context.Context) (launch.Egress, error) {
	w.locked(func() { w.fixture.opened++ })
	return fakeEgress{w}, nil
}

func (w fakeEgressProvider) locked(record func()) {
	w.fixture.egresses.Lock()
	defer w.fixture.egresses.Unlock()
	record()
}

type fakeEgress struct{ fakeEgressProvider }

func (w fakeEgress) Address() string                                         { return "http://127.0.0.1:9" }
func (w fakeEgress) MoveTo(net.Listener)                                     {}
func (w fakeEgress) OpenContextProxy(string, string) (string, func(), error) { return "", nil, nil }
func (w fakeEgress) Close()                                                  { w.locked(func() { w.fixture.closed++ }) }

func (w fakeEgress) PresentCertificates(byAddress map[string]tls.Certificate, authorities []*x509.Certificate, allowInvalid bool) (*x509.Certificate, error) {
	w.locked(func() { w.fixture.presented = append(w.fixture.presented, slices.Sorted(maps.Keys(byAddress))...) })
	return w.fixture.authority, nil
}

func (w fakeEgress) SetRules(rules *netrules.Policy) {
	w.locked(func() { w.fixture.rules = append(w.fixture.rules, rules) })
}

func (w fakeEgress) Restrict(uid int) {
	w.locked(func() { w.fixture.restrictedTo = append(w.fixture.restrictedTo, uid) })
}

func (w fakeEgress) Counts() (received, sent int64) { return 11, 7 }

func (w fakeEgress) Network(limit int) session.Network {
	return session.Network{NetworkTotals: session.NetworkTotals{BytesSent: 7, BytesReceived: 11}, Hosts: make([]session.NetworkHost, min(limit, 101))}
}

func (w fakeEgress) CountDenied(string, netrules.Verdict) {}

func (w fakeEgress) SetUpstream(upstream *settings.Proxy) error {
	if upstream == nil {
		return nil
	}
	w.locked(func() { w.fixture.upstreams = append(w.fixture.upstreams, upstream.Server+" "+upstream.Bypass) })
	return w.fixture.upstreamErr
}
