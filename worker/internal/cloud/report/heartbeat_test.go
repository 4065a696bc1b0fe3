package report_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/cloud/report"
	"github.com/browser-svc/svc/worker/internal/session"
)

func TestHeartbeat_FirstIsSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.run(t)
		defer r.stop()
		beats := r.cloud.heartbeats()
		if len(beats) != 1 || len(beats[0].listed) != 0 {
			t.Errorf("heartbeats %+v, want one without sessions, which releases the slots of an earlier boot", beats)
		}
	})
}

func TestHeartbeat_UsesIntervalFromCloud(t *testing.T) {
	for _, tc := range []struct {
		seconds int
		want    time.Duration
	}{{60, time.Minute}, {5, 5 * time.Second}, {0, 30 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			r := newFixture(t, t.TempDir())
			r.cloud.heartbeatAnswer.NextSeconds = tc.seconds
			r.run(t)
			defer r.stop()
			time.Sleep(100 * tc.want)
			beats := r.cloud.heartbeats()
			least, most := tc.want, tc.want
			for i := 1; i < len(beats); i++ {
				pause := beats[i].time.Sub(beats[i-1].time)
				least, most = min(least, pause), max(most, pause)
			}
			if least < tc.want*9/10 || most > tc.want*11/10 {
				t.Errorf("interval %d s: pauses from %v to %v, want within a tenth of %v", tc.seconds, least, most, tc.want)
			}
			if most-least < tc.want/20 {
				t.Errorf("interval %d s: pauses from %v to %v have no jitter", tc.seconds, least, most)
			}
		})
	}
}

func TestHeartbeat_ListsSessionsWithGreaterSeq(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		first, second := r.startSession(t), r.startSession(t)
		r.run(t)
		defer r.stop()
		r.endSession(first)
		time.Sleep(40 * time.Second)
		beats := r.cloud.heartbeats()
		if len(beats) != 2 {
			t.Fatalf("%d heartbeats, want 2", len(beats))
		}
		if !slices.Contains(beats[0].listed, first.ID) || !slices.Contains(beats[0].listed, second.ID) || len(beats[0].listed) != 2 {
			t.Errorf("the first lists %v", beats[0].listed)
		}
		if !slices.Equal(beats[1].listed, []uuid.UUID{second.ID}) {
			t.Errorf("the second lists %v", beats[1].listed)
		}
		if beats[0].seq <= second.Seq || beats[1].seq <= beats[0].seq {
			t.Errorf("sequence numbers: session %d, heartbeats %d and %d; want them to increase", second.Seq, beats[0].seq, beats[1].seq)
		}
	})
}

func TestHeartbeat_RetriesSoonAfterFailure(t *testing.T) {
	for _, kind := range []fault.Kind{fault.Unavailable, fault.OwnKeyRefused} {
		synctest.Test(t, func(t *testing.T) {
			r := newFixture(t, t.TempDir())
			r.cloud.heartbeatErr = fault.New(kind, "no")
			r.run(t)
			defer r.stop()
			time.Sleep(10 * time.Second)
			if n := len(r.cloud.heartbeats()); n < 3 {
				t.Errorf("%d heartbeats in ten seconds, want some", n)
			}
			time.Sleep(time.Hour)
			if n := strings.Count(r.log.String(), "heartbeat failed"); n < 10 || n > 15 {
				t.Errorf("%d lines about an hour's outage, want one in five minutes:\n%s", n, r.log)
			}
			if says := strings.Contains(r.log.String(), "SVC_CLOUD_URL"); says != (kind == fault.Unavailable) {
				t.Errorf("the log names the variable: %v", says)
			}
			r.cloud.set(func() { r.cloud.calls = nil })
			time.Sleep(5 * time.Minute)
			if n := len(r.cloud.heartbeats()); n < 30 || n > 100 {
				t.Errorf("%d heartbeats in five minutes after an hour's outage, want about one every 6 seconds", n)
			}
		})
	}
}

func TestHeartbeat_ReportsUnknownSessionAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		known, unknown := r.startSession(t), r.startSession(t)
		r.cloud.set(func() {
			r.cloud.calls = nil
			r.cloud.heartbeatAnswer.Unknown = []uuid.UUID{unknown.ID, uuid.New()} // the second does not run here
		})
		r.run(t)
		defer r.stop()
		assertDelivered(t, r.cloud.accepted(), startCall(unknown))
		_ = known
	})
}

func TestHeartbeat_RetriesStartOfUnknownSessionWithoutSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		s := r.startSession(t)
		r.cloud.set(func() {
			r.cloud.heartbeatAnswer.Unknown = []uuid.UUID{s.ID}
			r.cloud.fails[s.ID] = fault.New(fault.PaymentRequired, "All slots are taken.")
		})
		r.run(t)
		time.Sleep(5 * time.Minute)
		r.stop()
		if n := len(r.cloud.attempted()); n < 5 {
			t.Errorf("the start was reported %d times, want a retry after each heartbeat", n)
		}
	})
}

func TestHeartbeat_LogsAnswer(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer report.Heartbeat
		logged string
	}{
		{"not applied", report.Heartbeat{Applied: false, NextSeconds: 30}, "is WORKER_ID used by two workers"},
		{"released", report.Heartbeat{Applied: true, Released: []uuid.UUID{uuid.New()}, NextSeconds: 30}, "released sessions"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFixture(t, t.TempDir())
				r.cloud.heartbeatAnswer = tc.answer
				r.run(t)
				r.stop()
				if !strings.Contains(r.log.String(), tc.logged) {
					t.Errorf("the log does not contain %q:\n%s", tc.logged, r.log)
				}
			})
		})
	}
}

func TestHeartbeat_SentWithoutSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		s := r.startSession(t)
		r.sessions.End(s.ID, session.End{At: time.Now(), Status: session.Killed})
		r.run(t)
		defer r.stop()
		if beats := r.cloud.heartbeats(); len(beats) != 1 || len(beats[0].listed) != 0 || beats[0].seq <= s.Seq {
			t.Errorf("heartbeats %+v", beats)
		}
	})
}
