package report_test

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/cloud/report"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// call is a call to the cloud.
type call struct {
	what    string // start, commit, end, heartbeat
	name    string // of the session of a start
	session uuid.UUID
	err     error
	time    time.Time
	seq     int64
	listed  []uuid.UUID
	key     session.OrganizationKey
	boot    uuid.UUID // of a start
	events  []session.Event
}

// fakeCloud is a report.Cloud whose errors are scripted.
type fakeCloud struct {
	mu              sync.Mutex
	calls           []call
	down            bool
	hangs           bool
	starting        func()              // called when a start is reported
	slow            time.Duration       // delay of ReportEnd
	fails           map[uuid.UUID]error // errors by session, for its start and its end
	heartbeatErr    error
	heartbeatAnswer report.Heartbeat
	self            report.Identity
	keys            map[string]error                                // errors of calls with a caller's key
	heartbeatDelay  func(key session.OrganizationKey) time.Duration // delay of a key's heartbeats
	last            int64                                           // the highest sequence number of a heartbeat

	foreign map[string][]uuid.UUID // sessions that heartbeats with a caller's key report as unknown
}

var ownKey = session.NewOrganizationKey("the worker's own")

var errDown = fault.Wrap(report.ErrNoAnswer, fault.Unavailable, "The cloud cannot be reached.")

func (c *fakeCloud) Identity() report.Identity { return c.self }

func (c *fakeCloud) record(what string, session uuid.UUID, key session.OrganizationKey, boot uuid.UUID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := cmp.Or(c.keys[key.Reveal()], c.fails[session])
	if c.down {
		err = errDown
	}
	c.calls = append(c.calls, call{what: what, session: session, err: err, time: time.Now(), key: key, boot: boot})
	return err
}

func (c *fakeCloud) ReportStart(_ context.Context, s report.Start) error {
	if c.starting != nil {
		c.starting()
	}
	err := c.record("start", s.SessionID, s.OrganizationKey, s.BootID)
	c.set(func() { c.calls[len(c.calls)-1].name, c.calls[len(c.calls)-1].events = s.Name, s.Events })
	return err
}

func (c *fakeCloud) ReportCommit(_ context.Context, commit report.Commit) error {
	return c.record("commit", commit.SessionID, commit.OrganizationKey, uuid.Nil)
}

func (c *fakeCloud) ReportEnd(ctx context.Context, e report.End) error {
	if c.hangs {
		<-ctx.Done()
		return errDown
	}
	time.Sleep(c.slow)
	err := c.record("end", e.SessionID, e.OrganizationKey, uuid.Nil)
	c.set(func() { c.calls[len(c.calls)-1].events = e.Events })
	return err
}

func (c *fakeCloud) Heartbeat(_ context.Context, key session.OrganizationKey, seq int64, listed []uuid.UUID) (report.Heartbeat, error) {
	if c.heartbeatDelay != nil {
		time.Sleep(c.heartbeatDelay(key))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := cmp.Or(c.keys[key.Reveal()], c.heartbeatErr)
	if c.down {
		err = errDown
	}
	c.calls = append(c.calls, call{what: "heartbeat", err: err, time: time.Now(), seq: seq, listed: listed, key: key})
	beat := c.heartbeatAnswer
	beat.Applied = beat.Applied && seq >= c.last // as if all keys belonged to one organization
	c.last = max(c.last, seq)
	beat.Unknown = append(slices.Clone(beat.Unknown), c.foreign[key.Reveal()]...)
	return beat, err
}

func (c *fakeCloud) Ping(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	if c.down {
		err = errDown
	}
	c.calls = append(c.calls, call{what: "reach", err: err, time: time.Now()})
	return err
}

func (c *fakeCloud) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// attempted returns all reports of starts, commits and ends; accepted returns those that
// succeeded.
func (c *fakeCloud) attempted() []call {
	return c.filter(func(k call) bool { return k.what == "start" || k.what == "commit" || k.what == "end" })
}
func (c *fakeCloud) accepted() []call {
	return slices.DeleteFunc(c.attempted(), func(k call) bool { return k.err != nil })
}
func (c *fakeCloud) heartbeats() []call {
	return c.filter(func(k call) bool { return k.what == "heartbeat" })
}

func (c *fakeCloud) filter(match func(call) bool) []call {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []call
	for _, k := range c.calls {
		if match(k) {
			found = append(found, k)
		}
	}
	return found
}

// fixture is a Reporter with its dependencies. It must be used in a synctest bubble,
// which advances the time when all goroutines are blocked and fails the test if a
// goroutine is left.
type fixture struct {
	*report.Reporter
	cloud    *fakeCloud
	sessions *session.Store
	dir      string
	log      *bytes.Buffer
	stop     func()
}

func newFixture(t *testing.T, dir string) *fixture {
	t.Helper()
	r := &fixture{
		cloud:    &fakeCloud{fails: map[uuid.UUID]error{}, self: report.Identity{BootID: uuid.New(), Key: ownKey}, heartbeatAnswer: report.Heartbeat{Applied: true, NextSeconds: 30}},
		sessions: session.NewStore(clock.System{}), dir: dir, log: &bytes.Buffer{}, stop: func() {},
	}
	var err error
	r.Reporter, err = report.New(r.cloud, r.sessions, dir, slog.New(slog.NewTextHandler(r.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// run starts Run; stop ends it.
func (r *fixture) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	r.stop = func() {
		cancel()
		<-done
	}
	synctest.Wait()
}

// addSession adds a running session.
func (r *fixture) addSession() session.Session {
	return r.sessions.Add(session.Session{ID: uuid.New(), LaunchID: uuid.New(), ProfileID: uuid.New(), StartedAt: time.Now()})
}

// startSession adds a session and reports its start.
func (r *fixture) startSession(t *testing.T) session.Session {
	t.Helper()
	s := r.addSession()
	if err := r.Started(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return s
}

func (r *fixture) endSession(s session.Session) {
	r.sessions.End(s.ID, session.End{At: time.Now(), Status: session.Exited, Reason: session.Crash})
	r.Ended(launch.Ended{
		SessionID: s.ID, ProfileID: s.ProfileID, Status: session.Exited, Reason: session.Crash, At: time.Now(), OrganizationKey: s.OrganizationKey,
	})
}

// assertDelivered compares the accepted reports, in order.
func assertDelivered(t *testing.T, got []call, want ...call) {
	t.Helper()
	same := len(got) == len(want)
	for i := 0; same && i < len(got); i++ {
		same = got[i].what == want[i].what && got[i].session == want[i].session
	}
	if !same {
		t.Errorf("got reports\n%v\nwant\n%v", describe(got), describe(want))
	}
}

func describe(calls []call) (all []string) {
	for _, k := range calls {
		all = append(all, k.what+" "+k.session.String())
	}
	return all
}

func startCall(s session.Session) call { return call{what: "start", session: s.ID} }
func endCall(s session.Session) call   { return call{what: "end", session: s.ID} }
