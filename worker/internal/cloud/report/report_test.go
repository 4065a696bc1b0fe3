package report_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

func journalFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestStarted_ReportsBeforeReturning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		s := r.startSession(t) // no loop runs that could report it later
		assertDelivered(t, r.cloud.accepted(), startCall(s))
		if left := journalFiles(t, r.dir); len(left) > 0 {
			t.Errorf("the journal contains %v", left)
		}
	})
}

func TestStarted_ReturnsVerdict(t *testing.T) {
	for _, tc := range []struct {
		kind    fault.Kind
		verdict bool
	}{
		{fault.PaymentRequired, true}, {fault.Conflict, true}, {fault.NotFound, true}, {fault.Validation, true}, {fault.OwnKeyRefused, true},
		{fault.Unavailable, false}, {fault.Timeout, false}, {fault.RateLimited, false}, {fault.Internal, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newFixture(t, t.TempDir())
			s := r.addSession()
			r.cloud.fails[s.ID] = fault.New(tc.kind, "no")
			err := r.Started(t.Context(), s)
			pending := len(journalFiles(t, r.dir)) == 1
			if tc.verdict && (!fault.Is(err, tc.kind) || pending) {
				t.Errorf("%d: got error %v, pending %v; want an error and no pending report", tc.kind.Status(), err, pending)
			}
			if !tc.verdict && (err != nil || !pending) {
				t.Errorf("%d: got error %v, pending %v; want no error and a pending start", tc.kind.Status(), err, pending)
			}
		})
	}
}

func TestReports_DeliveredInOrderAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.cloud.down = true
		r.run(t)
		defer r.stop()
		first, second := r.startSession(t), r.startSession(t)
		r.endSession(first)
		time.Sleep(10 * time.Minute)
		if reported := r.cloud.accepted(); len(reported) > 0 {
			t.Fatalf("got reports %v while the cloud is down", describe(reported))
		}
		if left := journalFiles(t, r.dir); len(left) != 2 {
			t.Fatalf("the journal contains %v, want two sessions", left)
		}
		r.cloud.set(func() { r.cloud.down = false })
		time.Sleep(time.Minute)
		reported := r.cloud.accepted()
		if len(reported) != 3 {
			t.Fatalf("got reports %v, want three", describe(reported))
		}
		var ofFirst []call
		for _, k := range reported {
			if k.session == first.ID {
				ofFirst = append(ofFirst, k)
			}
		}
		assertDelivered(t, ofFirst, startCall(first), endCall(first))
		if !strings.Contains(strings.Join(describe(reported), ","), "start "+second.ID.String()) {
			t.Errorf("got reports %v without the second start", describe(reported))
		}
		if left := journalFiles(t, r.dir); len(left) > 0 {
			t.Errorf("the journal still contains %v", left)
		}
	})
}

func TestReports_BackOffWhileCloudIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.cloud.down = true
		r.run(t)
		defer r.stop()
		for range 20 {
			r.endSession(r.addSession())
			time.Sleep(10 * time.Second)
		}
		tried := r.cloud.attempted()
		for i := 1; i < len(tried); i++ {
			pause := tried[i].time.Sub(tried[i-1].time)
			if pause < 250*time.Millisecond || pause > 45*time.Second {
				t.Errorf("attempt %d came %v after the previous one", i, pause)
			}
		}
		if n := len(tried); n < 8 || n > 30 {
			t.Errorf("got %d attempts in 200 s", n)
		}
	})
}

func TestReports_FailingReportDoesNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		poison, good := r.addSession(), r.addSession()
		r.cloud.fails[poison.ID] = fault.New(fault.Unavailable, "500")
		r.run(t)
		defer r.stop()
		r.endSession(poison)
		r.endSession(good)
		time.Sleep(time.Minute)
		assertDelivered(t, r.cloud.accepted(), endCall(good))
		if left := journalFiles(t, r.dir); len(left) != 1 {
			t.Errorf("the journal contains %v, want the pending one", left)
		}
	})
}

func TestJournal_NextBootDeliversEndedSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		before := newFixture(t, dir)
		before.cloud.down = true
		started, ended := before.startSession(t), before.startSession(t)
		before.endSession(ended)
		failed := launch.Ended{SessionID: uuid.New(), ProfileID: uuid.New(), Status: session.Killed, Reason: session.Unknown, At: time.Now()}
		before.Ended(failed)
		if n := len(journalFiles(t, dir)); n != 3 {
			t.Fatalf("got %d files, want 3", n)
		}

		after := newFixture(t, dir)
		after.run(t)
		defer after.stop()
		reported := map[string]bool{}
		for _, k := range after.cloud.accepted() {
			reported[k.what+" "+k.session.String()] = true
			if k.what == "start" && k.boot != before.cloud.self.BootID {
				t.Errorf("the start was reported with boot %s, want %s", k.boot, before.cloud.self.BootID)
			}
		}
		if len(reported) != 3 || !reported["start "+ended.ID.String()] || !reported["end "+ended.ID.String()] || !reported["end "+failed.SessionID.String()] {
			t.Errorf("got reports %v; want both ends, one with its start, and no report of %s, whose browser died with the worker", reported, started.ID)
		}
		if calls := after.cloud.calls; calls[len(calls)-1].what != "heartbeat" || len(after.cloud.heartbeats()) != 1 {
			t.Errorf("the first heartbeat, which ends the earlier boot's sessions, was not sent last: %v", describe(calls))
		}
		if left := journalFiles(t, dir); len(left) > 0 {
			t.Errorf("the journal still contains %v", left)
		}
	})
}

func TestJournal_CorruptFileDoesNotStopBoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		before := newFixture(t, dir)
		good := before.addSession()
		before.endSession(good)
		for name, text := range map[string]string{
			"broken.json": `{"end":{"sess`, "empty.json": "", "null.json": "null", "nothing.json": "{}", "other.json": `{"end":7}`,
			"half.json.new": `{"end":`,
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := newFixture(t, dir)
		r.run(t)
		defer r.stop()
		assertDelivered(t, r.cloud.accepted(), endCall(good))
		var left []string
		for _, file := range journalFiles(t, dir) {
			left = append(left, filepath.Base(file))
		}
		aside := []string{"broken.json.rejected", "empty.json.rejected", "nothing.json.rejected", "null.json.rejected", "other.json.rejected"}
		if !slices.Equal(left, aside) {
			t.Errorf("the journal contains %v, want %v", left, aside)
		}
		for _, name := range []string{"broken.json", "empty.json", "other.json", "half.json.new"} {
			if strings.Count(r.log.String(), name) != 1 {
				t.Errorf("%s was set aside without a log message: %s", name, r.log)
			}
		}
		if waiting, rejected := r.Counts(); waiting != 0 || rejected != len(aside) {
			t.Errorf("got %d pending, %d rejected", waiting, rejected)
		}
	})
}

func TestJournal_WriteFailureStillDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, filepath.Join(t.TempDir(), "reports"))
		if err := os.RemoveAll(r.dir); err != nil {
			t.Fatal(err)
		}
		r.run(t)
		defer r.stop()
		s := r.addSession()
		r.endSession(s)
		synctest.Wait()
		assertDelivered(t, r.cloud.accepted(), endCall(s))
		if !strings.Contains(r.log.String(), "keeping it in memory") {
			t.Errorf("got log %s", r.log)
		}
	})
}

// TestReports_LateRefusalKeepsSession refuses starts that could not be reported
// while their launches waited.
func TestReports_LateRefusalKeepsSession(t *testing.T) {
	for _, tc := range []struct {
		name  string
		err   *fault.Error
		final bool
	}{
		{"no slot", fault.New(fault.PaymentRequired, "no"), false},
		{"has ended", fault.New(fault.Conflict, "no"), true},
		{"no such profile", fault.New(fault.NotFound, "no"), true},
		{"invalid", fault.New(fault.Validation, "no"), true},
		{"the key is refused", fault.New(fault.OwnKeyRefused, "no"), false},
		{"still down", errDown, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFixture(t, t.TempDir())
				r.cloud.down = true
				s := r.startSession(t)
				r.cloud.fails[s.ID], r.cloud.down = tc.err, false
				r.cloud.heartbeatAnswer.Unknown = []uuid.UUID{s.ID}
				r.run(t)
				time.Sleep(10 * time.Minute)
				r.stop()
				waiting, rejected := r.Counts()
				if final := waiting == 0 && rejected == 1; final != tc.final {
					t.Errorf("%d reports wait, %d were rejected", waiting, rejected)
				}
				if starts := len(r.cloud.attempted()); tc.final && starts != 2 {
					t.Errorf("the start was reported %d times, want 2: at the launch and once after the outage", starts)
				}
				beats := r.cloud.heartbeats()
				if last := beats[len(beats)-1]; !slices.Contains(last.listed, s.ID) {
					t.Error("the last heartbeat does not list the session")
				}
			})
		})
	}
}

func TestFlush_DeliversOnceWithinTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		s := r.addSession()
		r.endSession(s)
		r.cloud.down = true
		r.Flush(t.Context())
		if n := len(r.cloud.attempted()); n != 1 {
			t.Errorf("got %d attempts, want one", n)
		}
		r.cloud.hangs = true
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if r.Flush(ctx); time.Since(began) != time.Second {
			t.Errorf("took %v, want to give up with its context", time.Since(began))
		}
		r.cloud.hangs = false
		r.cloud.down = false
		r.Flush(t.Context())
		assertDelivered(t, r.cloud.accepted(), endCall(s))
		if left := journalFiles(t, r.dir); len(left) > 0 {
			t.Errorf("the journal still contains %v", left)
		}
	})
}

func TestFlush_SkipsReportsInDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.run(t)
		r.cloud.slow = time.Second
		r.endSession(r.addSession())
		synctest.Wait() // Run reports it
		r.Flush(t.Context())
		if n := len(r.cloud.attempted()); n != 1 {
			t.Errorf("got %d reports", n)
		}
		r.stop()
	})
}

func TestRun_EndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // synctest fails if a goroutine is left
		r := newFixture(t, t.TempDir())
		r.cloud.down = true
		r.startSession(t)
		r.run(t)
		began := time.Now()
		r.stop()
		if took := time.Since(began); took > 0 {
			t.Errorf("took %v", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r.Run(ctx)
	})
}
