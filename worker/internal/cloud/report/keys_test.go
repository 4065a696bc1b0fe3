package report_test

import (
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/cloud/report"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

var (
	keyA = session.NewOrganizationKey("a")
	keyB = session.NewOrganizationKey("b")
)

// startSessionWithKey adds a session charged to a caller's key and reports its start.
func (r *fixture) startSessionWithKey(t *testing.T, key session.OrganizationKey) session.Session {
	t.Helper()
	s := r.sessions.Add(session.Session{ID: uuid.New(), LaunchID: uuid.New(), ProfileID: uuid.New(), StartedAt: time.Now(), OrganizationKey: key})
	if err := r.Started(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return s
}

// heartbeatsByKey returns and clears the keys and sessions of the heartbeats.
func (r *fixture) heartbeatsByKey() (keys []string, listed [][]uuid.UUID) {
	for _, b := range r.cloud.heartbeats() {
		keys, listed = append(keys, b.key.Reveal()), append(listed, b.listed)
	}
	r.cloud.set(func() { r.cloud.calls = nil })
	slices.Sort(keys)
	return keys, listed
}

func TestHeartbeat_OnePerKeyListsAllSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		own, a, again, b := r.startSession(t), r.startSessionWithKey(t, keyA), r.startSessionWithKey(t, keyA), r.startSessionWithKey(t, keyB)
		r.startSessionWithKey(t, ownKey) // a caller that uses the worker's own key
		r.run(t)
		defer r.stop()
		keys, listed := r.heartbeatsByKey()
		if !slices.Equal(keys, []string{"", "a", "b"}) {
			t.Errorf("got heartbeats with keys %q", keys)
		}
		for _, ids := range listed {
			if len(ids) != 5 || !slices.Contains(ids, own.ID) || !slices.Contains(ids, a.ID) || !slices.Contains(ids, again.ID) || !slices.Contains(ids, b.ID) {
				t.Errorf("a heartbeat lists %v", ids)
			}
		}
		r.endSession(b)
		time.Sleep(40 * time.Second)
		if keys, _ := r.heartbeatsByKey(); !slices.Equal(keys, []string{"", "a"}) {
			t.Errorf("after the last session of a key got heartbeats with %q", keys)
		}
	})
}

func TestHeartbeat_SentForKeyWithPendingReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		s := r.startSessionWithKey(t, keyA)
		r.cloud.fails[s.ID] = errDown
		r.endSession(s)
		r.run(t)
		defer r.stop()
		if keys, _ := r.heartbeatsByKey(); !slices.Equal(keys, []string{"", "a"}) {
			t.Errorf("got heartbeats with %q", keys)
		}
	})
}

func TestReports_WithoutOwnKeyUseCallerKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.cloud.self.Key = session.OrganizationKey{}
		var err error
		if r.Reporter, err = report.New(r.cloud, r.sessions, r.dir, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		r.run(t)
		defer r.stop()
		if keys, _ := r.heartbeatsByKey(); len(keys) > 0 {
			t.Errorf("got heartbeats with %q without a key", keys)
		}
		s := r.startSessionWithKey(t, keyA)
		time.Sleep(40 * time.Second)
		if keys, _ := r.heartbeatsByKey(); !slices.Equal(slices.Compact(keys), []string{"a"}) {
			t.Errorf("got heartbeats with %q", keys)
		}
		r.endSession(s)
		synctest.Wait()
		if reports := r.cloud.accepted(); len(reports) != 1 || reports[0].key.Reveal() != "a" {
			t.Errorf("got reports %+v", reports)
		}
	})
}

func TestHeartbeat_UnknownSessionReportedToOwnOrganizationOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		a, b, known := r.startSessionWithKey(t, keyA), r.startSessionWithKey(t, keyB), r.startSessionWithKey(t, keyB)
		r.cloud.set(func() { // no organization knows the sessions of another
			r.cloud.calls = nil
			r.cloud.foreign = map[string][]uuid.UUID{"a": {a.ID, b.ID, known.ID}, "b": {a.ID, b.ID}}
		})
		r.run(t)
		defer r.stop()
		for _, k := range r.cloud.accepted() {
			if want := map[uuid.UUID]string{a.ID: "a", b.ID: "b"}[k.session]; k.key.Reveal() != want {
				t.Errorf("session %s was reported with key %q, want %q", k.session, k.key.Reveal(), want)
			}
		}
		if n := len(r.cloud.accepted()); n != 2 {
			t.Errorf("got %d reports", n)
		}
	})
}

func TestJournal_CallerKeyReportsStayInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.cloud.down = true
		s := r.startSessionWithKey(t, keyA)
		r.endSession(s)
		r.Ended(launch.Ended{SessionID: uuid.New(), ProfileID: uuid.New(), Status: session.Killed, Reason: session.Unknown, OrganizationKey: keyB})
		if left := journalFiles(t, r.dir); len(left) > 0 {
			t.Errorf("on disk: %v", left)
		}
		r.cloud.down = false
		r.run(t)
		defer r.stop()
		time.Sleep(time.Minute)
		if n := len(r.cloud.accepted()); n != 3 {
			t.Errorf("got reports %v", describe(r.cloud.accepted()))
		}
	})
}

func TestJournal_LogsDroppedReportWhenFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		for range 10_001 {
			if logged := r.log.String(); logged != "" {
				t.Fatalf("logged too early: %s", logged)
			}
			r.Ended(launch.Ended{SessionID: uuid.New(), ProfileID: uuid.New(), OrganizationKey: keyA})
		}
		if logged := r.log.String(); !strings.Contains(logged, "dropped") || strings.Contains(logged, "kept") {
			t.Errorf("got log %s", logged)
		}
	})
}

func TestReports_RevokedCallerKeyBlocksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.cloud.down = true
		_, good := r.startSessionWithKey(t, keyA), r.startSessionWithKey(t, keyB)
		r.cloud.down = false
		r.cloud.keys = map[string]error{"a": fault.New(fault.Unauthenticated, "no")}
		r.run(t)
		time.Sleep(time.Minute)
		r.stop()
		assertDelivered(t, r.cloud.accepted(), startCall(good))
		if n := len(r.cloud.attempted()); n > 4 {
			t.Errorf("got %d attempts", n)
		}
	})
}

// A refusal of one organization must not let the sessions of others expire.
func TestHeartbeat_RefusalOfOneKeyDoesNotStopOthers(t *testing.T) {
	for _, tc := range []struct {
		name   string
		failed error
		first  int // keys of the first round, the worker's own among them
	}{
		{"internal error", fault.New(fault.Unavailable, "500"), 3},
		{"no answer", errDown, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFixture(t, t.TempDir())
				r.startSessionWithKey(t, keyA)
				r.startSessionWithKey(t, keyB)
				r.cloud.keys = map[string]error{"a": tc.failed, "b": tc.failed}
				r.run(t)
				defer r.stop()
				keys, _ := r.heartbeatsByKey()
				if len(keys) != tc.first || keys[0] != "" {
					t.Fatalf("got heartbeats with %q, want %d", keys, tc.first)
				}
				r.cloud.set(func() { r.cloud.keys = map[string]error{keys[1]: tc.failed} })
				for range 3 {
					time.Sleep(35 * time.Second)
					if keys, _ := r.heartbeatsByKey(); !slices.Equal(slices.Compact(keys), []string{"", "a", "b"}) {
						t.Errorf("afterwards got heartbeats with %q", keys)
					}
				}
			})
		})
	}
}

func TestHeartbeat_RoundStopsWhenCloudDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.startSessionWithKey(t, keyA)
		r.startSessionWithKey(t, keyB)
		r.cloud.down = true
		r.run(t)
		defer r.stop()
		time.Sleep(5 * time.Minute)
		beats := r.cloud.heartbeats()
		if n := len(beats); n < 30 || n > 120 {
			t.Errorf("%d heartbeats in five minutes, want about one every 6 seconds with the worker's own key, and fewer with callers' keys", n)
		}
		perKey := map[session.OrganizationKey]int{}
		for _, b := range beats {
			perKey[b.key]++
		}
		if len(perKey) != 3 {
			t.Errorf("%d keys were used, want each in turn", len(perKey))
		}
	})
}

// Callers' keys must not let the worker's own sessions expire.
func TestHeartbeat_CallerKeysDoNotDelayOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.cloud.heartbeatDelay = func(key session.OrganizationKey) time.Duration {
			if key.IsZero() {
				return 100 * time.Millisecond // so that heartbeats of callers overtake it
			}
			return 3 * time.Second
		}
		for i := range 100 {
			r.startSessionWithKey(t, session.NewOrganizationKey(strconv.Itoa(i)))
		}
		r.run(t)
		defer r.stop()
		time.Sleep(20 * time.Minute)
		var last time.Time
		perKey := map[string]int{}
		for _, b := range r.cloud.heartbeats() {
			perKey[b.key.Reveal()]++
			if !b.key.IsZero() {
				continue
			}
			if pause := b.time.Sub(last); !last.IsZero() && pause > 35*time.Second {
				t.Errorf("%v between two heartbeats of the worker's own key", pause)
			}
			last = b.time
		}
		if len(perKey) != 101 {
			t.Errorf("heartbeats were sent with %d keys, want all", len(perKey))
		}
		if strings.Contains(r.log.String(), "used by two workers") {
			t.Errorf("a heartbeat overtaken by another heartbeat of this worker was logged as another machine's:\n%s", r.log)
		}
	})
}
