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
	"github.com/browser-svc/svc/worker/internal/launch"
	"github.com/browser-svc/svc/worker/internal/report"
	"github.com/browser-svc/svc/worker/internal/session"
)

var (
	keyA = session.NewOrganizationKey("a")
	keyB = session.NewOrganizationKey("b")
)

// startSessionWithKey lists a session charged to a caller's key and reports it.
func (r *fixture) startSessionWithKey(t *testing.T, key session.OrganizationKey) session.Session {
	t.Helper()
	s := r.sessions.Add(session.Session{ID: uuid.New(), LaunchID: uuid.New(), ProfileID: uuid.New(), StartedAt: time.Now(), OrganizationKey: key})
	if err := r.Started(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return s
}

// heartbeatsByKey lists the keys of the heartbeats, and forgets them.
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
		r.startSessionWithKey(t, ownKey) // a caller that brings the worker's own
		r.run(t)
		defer r.stop()
		keys, listed := r.heartbeatsByKey()
		if !slices.Equal(keys, []string{"", "a", "b"}) {
			t.Errorf("heartbeats with the keys %q", keys)
		}
		for _, ids := range listed {
			if len(ids) != 5 || !slices.Contains(ids, own.ID) || !slices.Contains(ids, a.ID) || !slices.Contains(ids, again.ID) || !slices.Contains(ids, b.ID) {
				t.Errorf("a heartbeat lists %v", ids)
			}
		}
		r.endSession(b)
		time.Sleep(40 * time.Second)
		if keys, _ := r.heartbeatsByKey(); !slices.Equal(keys, []string{"", "a"}) {
			t.Errorf("after the last session of a key heartbeats go out with %q", keys)
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
			t.Errorf("heartbeats with %q", keys)
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
			t.Errorf("heartbeats with %q while there is no key", keys)
		}
		s := r.startSessionWithKey(t, keyA)
		time.Sleep(40 * time.Second)
		if keys, _ := r.heartbeatsByKey(); !slices.Equal(slices.Compact(keys), []string{"a"}) {
			t.Errorf("heartbeats with %q", keys)
		}
		r.endSession(s)
		synctest.Wait()
		if told := r.cloud.accepted(); len(told) != 1 || told[0].key.Reveal() != "a" {
			t.Errorf("told %+v", told)
		}
	})
}

func TestHeartbeat_UnknownSessionReportedToOwnOrganizationOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		a, b, known := r.startSessionWithKey(t, keyA), r.startSessionWithKey(t, keyB), r.startSessionWithKey(t, keyB)
		r.cloud.set(func() { // no organization knows another's
			r.cloud.calls = nil
			r.cloud.foreign = map[string][]uuid.UUID{"a": {a.ID, b.ID, known.ID}, "b": {a.ID, b.ID}}
		})
		r.run(t)
		defer r.stop()
		for _, k := range r.cloud.accepted() {
			if want := map[uuid.UUID]string{a.ID: "a", b.ID: "b"}[k.session]; k.key.Reveal() != want {
				t.Errorf("%s is told with key %q, want %q", k.session, k.key.Reveal(), want)
			}
		}
		if n := len(r.cloud.accepted()); n != 2 {
			t.Errorf("told %d times", n)
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
			t.Errorf("told %v", describe(r.cloud.accepted()))
		}
	})
}

func TestJournal_LogsDroppedReportWhenFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		for range 10_001 {
			if said := r.log.String(); said != "" {
				t.Fatalf("too early: %s", said)
			}
			r.Ended(launch.Ended{SessionID: uuid.New(), ProfileID: uuid.New(), OrganizationKey: keyA})
		}
		if said := r.log.String(); !strings.Contains(said, "dropped") || strings.Contains(said, "kept") {
			t.Errorf("the log says %s", said)
		}
	})
}

func TestReports_RevokedCallerKeyBlocksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.cloud.down = true
		revoked, good := r.startSessionWithKey(t, keyA), r.startSessionWithKey(t, keyB)
		r.cloud.down = false
		r.cloud.keys = map[string]error{"a": fault.New(fault.Unauthenticated, "no")}
		r.run(t)
		time.Sleep(time.Minute)
		r.stop()
		assertDelivered(t, r.cloud.accepted(), startCall(good))
		if len(r.refused) > 0 {
			t.Errorf("%s was ended (specification 3.2: never)", revoked.ID)
		}
		if n := len(r.cloud.attempted()); n > 4 {
			t.Errorf("tried %d times", n)
		}
	})
}

// What one organization's rows are at must not lapse the sessions of others.
func TestHeartbeat_RefusalOfOneKeyDoesNotStopOthers(t *testing.T) {
	for _, tc := range []struct {
		name   string
		failed error
		first  int // keys of the first round, the worker's own among them
	}{
		{"it can't", fault.New(fault.Unavailable, "500"), 3},
		{"it says nothing", errDown, 2},
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
					t.Fatalf("heartbeats with %q, want %d", keys, tc.first)
				}
				r.cloud.set(func() { r.cloud.keys = map[string]error{keys[1]: tc.failed} })
				for range 3 {
					time.Sleep(35 * time.Second)
					if keys, _ := r.heartbeatsByKey(); !slices.Equal(slices.Compact(keys), []string{"", "a", "b"}) {
						t.Errorf("then heartbeats with %q", keys)
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
			t.Errorf("%d heartbeats in five minutes, want one every 6 seconds or so of the worker's own key, and fewer of its callers'", n)
		}
		told := map[session.OrganizationKey]int{}
		for _, b := range beats {
			told[b.key]++
		}
		if len(told) != 3 {
			t.Errorf("%d keys were tried, want each in turn", len(told))
		}
	})
}

// However many callers there are, the worker's own sessions must not lapse for it.
func TestHeartbeat_CallerKeysDoNotDelayOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.cloud.heartbeatDelay = func(key session.OrganizationKey) time.Duration {
			if key.IsZero() {
				return 100 * time.Millisecond // so that those of callers overtake it
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
		told := map[string]int{}
		for _, b := range r.cloud.heartbeats() {
			told[b.key.Reveal()]++
			if !b.key.IsZero() {
				continue
			}
			if pause := b.at.Sub(last); !last.IsZero() && pause > 35*time.Second {
				t.Errorf("%v between two heartbeats of the worker's own key", pause)
			}
			last = b.at
		}
		if len(told) != 101 {
			t.Errorf("%d keys were told of, want all", len(told))
		}
		if strings.Contains(r.log.String(), "used by two workers") {
			t.Errorf("a heartbeat that another one of this worker's overtook is taken for another machine's:\n%s", r.log)
		}
	})
}
