package launch_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/launch"
	"github.com/browser-svc/svc/worker/internal/session"
)

// cloud grants, or refuses, and keeps what it was asked and told.
type cloud struct {
	mu       sync.Mutex
	profile  launch.Profile // granted
	refusal  error
	onStart  error
	starting func()                    // while a start is reported
	entered  func(ctx context.Context) // before an authorization is answered
	asked    []launch.Authorization
	started  []session.Session
	ended    []launch.Ended
	carried  map[uuid.UUID]bool // by session
	decide   func(launch.Authorization) (full bool, err error)
	bare     bool        // grants come without the configuration
	configs  []uuid.UUID // asked for by calls of their own
	noConfig error
	endedNow chan struct{} // one for each end
}

func (c *cloud) Authorize(ctx context.Context, asked launch.Authorization) (launch.Grant, error) {
	if c.entered != nil {
		c.entered(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, asked)
	if c.refusal != nil {
		return launch.Grant{}, c.refusal
	}
	full, slot := false, uuid.New()
	if c.decide != nil {
		var err error
		if full, err = c.decide(asked); err != nil {
			return launch.Grant{}, err
		}
	}
	if c.bare {
		return launch.Grant{SlotID: &slot}, nil
	}
	granted := c.profile
	if asked.ProfileID != nil {
		granted.ID = *asked.ProfileID
	}
	return launch.Grant{SlotID: &slot, Profile: granted, Full: full}, nil
}

func (c *cloud) Started(_ context.Context, s session.Session) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started = append(c.started, s)
	if c.starting != nil {
		c.starting()
	}
	return c.onStart
}

func (c *cloud) Ended(ended launch.Ended) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = append(c.ended, ended)
	c.endedNow <- struct{}{}
}

func (c *cloud) ends() []launch.Ended {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.ended)
}

type builds []browser.Build

func (b builds) Find(context.Context) ([]browser.Build, error) { return b, nil }

// recorder is a Launcher that starts nothing and keeps what it was asked.
type recorder struct{ spec browser.Spec }

func (r *recorder) Launch(_ context.Context, spec browser.Spec) (*browser.Browser, error) {
	r.spec = spec
	return nil, fmt.Errorf("nothing is started here")
}

func (*recorder) CanMoveTimezone() bool { return false }

// rig is a Service with real browsers, and a cloud.
type rig struct {
	*launch.Service
	cloud *cloud
	build browser.Build
	dir   string
	opens int                             // of ways
	paths []string                        // the proxies that ways led to
	users []int                           // that ways were kept for
	stops int                             // of ways that were closed
	noWay error                           // of leading to a proxy
	check func(ctx context.Context) error // of a proxy; nil: it is fine
}

func newRig(t *testing.T, change ...func(*launch.Options)) *rig {
	t.Helper()
	r := &rig{dir: testenv.PublicTempDir(t), build: systemBuild(t)}
	r.cloud = &cloud{endedNow: make(chan struct{}, 100), profile: launch.Profile{Name: "Checkout", BrowserVersion: r.build.Major}}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	launcher, err := browser.NewLauncher(browser.Options{Dir: r.launches(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = launcher.Close() })
	opts := launch.Options{
		License: r.cloud, Reports: r.cloud, Builds: builds{r.build}, Launcher: launcher, Sessions: session.NewStore(clock.System{}),
		Data: keptIn(t, filepath.Join(r.dir, "profiles"), log), Clock: clock.System{}, Logger: log,
		Ways: ways{r},
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
		r.assertNothingLeft(t)
	})
	return r
}

func (r *rig) launches() string { return filepath.Join(r.dir, "launches") }

func byProfile() launch.Request {
	id := uuid.Must(uuid.NewV7())
	return launch.Request{ProfileID: &id, Headless: true, Timeout: 20 * time.Second}
}

func (r *rig) launch(t *testing.T, request launch.Request) session.Session {
	t.Helper()
	s, err := r.Launch(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// browser is that of a session that runs.
func (r *rig) browser(t *testing.T, s session.Session) *browser.Browser {
	t.Helper()
	b, ok := r.Browser(s.LaunchID)
	if !ok {
		t.Fatal("the browser is not known")
	}
	return b
}

// awaitEnd waits for the next reported end.
func (r *rig) awaitEnd(t *testing.T, limit time.Duration) launch.Ended {
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

func (r *rig) assertNothingLeft(t *testing.T) {
	t.Helper()
	if left := r.processes(); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	if left := r.directories(t); len(left) > 0 {
		t.Errorf("directories left: %v", left)
	}
}

// processes lists those that carry the launches' directory.
func (r *rig) processes() (found []string) {
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range commands {
		if command, _ := os.ReadFile(file); bytes.Contains(command, []byte(r.dir+"/")) {
			found = append(found, file)
		}
	}
	return found
}

// browsers lists the main processes among them: Chromium's others come and go.
func (r *rig) browsers() (found []string) {
	for _, file := range r.processes() {
		if command, _ := os.ReadFile(file); bytes.Contains(command, []byte("--remote-debugging-pipe")) && !bytes.Contains(command, []byte("--type=")) {
			found = append(found, file)
		}
	}
	return found
}

func (r *rig) directories(t *testing.T) (found []string) {
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

// assertSession checks how a session is listed as ended.
func (r *rig) assertSession(t *testing.T, id uuid.UUID, status session.Status, reason session.EndReason, code *int) {
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
		t.Fatalf("error %v, want one that is answered with %d", err, kind.Status())
	}
	return fault.From(err)
}

func systemBuild(t *testing.T) browser.Build {
	t.Helper()
	found, err := browser.NewFinder(browser.FindOptions{}).Find(t.Context())
	if err != nil || len(found) == 0 {
		t.Fatalf("no Chromium is installed; these tests need one (%v)", err)
	}
	return found[0]
}

// ways lead nowhere and remember what was asked of them.
type ways struct{ rig *rig }

func (w ways) Check(ctx context.Context, _ launch.Proxy) error {
	if w.rig.check == nil {
		return nil
	}
	return w.rig.check(ctx)
}

func (w ways) Open(context.Context) (launch.Way, error) {
	w.rig.opens++
	return way(w), nil
}

type way ways

func (w way) Address() string   { return "http://127.0.0.1:9" }
func (w way) Move(net.Listener) {}
func (w way) Restrict(uid int)  { w.rig.users = append(w.rig.users, uid) }
func (w way) Close()            { w.rig.stops++ }

func (w way) Counts() (in, out int64) { return 11, 7 }

func (w way) Use(to *launch.Proxy) error {
	if to == nil {
		return nil
	}
	w.rig.paths = append(w.rig.paths, to.Server+" "+to.Bypass)
	return w.rig.noWay
}
