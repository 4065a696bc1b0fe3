package report_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/browser-svc/svc/shared/fault"
)

// Until the first heartbeat with a session, the cloud holds its slot for six hours,
// even if the worker died (specification 3.2).
func TestHeartbeat_IncludesSessionSoonAfterStart(t *testing.T) {
	for name, away := range map[string]time.Duration{"reported at once": 0, "reported later": 400 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFixture(t, t.TempDir())
				r.run(t)
				defer r.stop()
				time.Sleep(5 * time.Second)
				s := r.addSession()
				r.cloud.set(func() {
					r.cloud.calls = nil
					if away > 0 {
						r.cloud.fails[s.ID] = errDown
					}
				})
				if err := r.Started(t.Context(), s); err != nil {
					t.Fatal(err)
				}
				time.Sleep(away)
				r.cloud.set(func() { delete(r.cloud.fails, s.ID) })
				time.Sleep(4 * time.Second)
				beats := r.cloud.heartbeats()
				if len(beats) != 1 || !slices.Contains(beats[0].listed, s.ID) || beats[0].seq <= s.Seq {
					t.Fatalf("heartbeats after the start: %+v, want one with the session", beats)
				}
				if reportedAt := r.cloud.accepted(); len(reportedAt) != 1 || reportedAt[0].time.After(beats[0].time) {
					t.Errorf("reported %v after the heartbeat of %v", reportedAt, beats[0].time)
				}
			})
		})
	}
}

func TestHeartbeat_StartsShareFirstHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.cloud.heartbeatAnswer.NextSeconds = 120
		r.startSessionWithKey(t, keyB)
		r.run(t)
		defer r.stop()
		r.heartbeatsByKey()
		for range 200 {
			r.startSessionWithKey(t, keyA)
			r.endSession(r.startSessionWithKey(t, keyB)) // ends before its first heartbeat
			time.Sleep(100 * time.Millisecond)
		}
		beats := r.cloud.heartbeats()
		if n := len(beats); n < 8 || n > 11 {
			t.Errorf("%d heartbeats in 20 s of starts, want one every two seconds", n)
		}
		for i, b := range beats {
			if b.key != keyA {
				t.Errorf("got a heartbeat with the key %q, which has no new session", b.key.Reveal())
			}
			if i > 0 && b.time.Sub(beats[i-1].time) < 1800*time.Millisecond {
				t.Errorf("got a heartbeat %v after the previous one", b.time.Sub(beats[i-1].time))
			}
		}
	})
}

func TestHeartbeat_RetriesFailedFirstHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.cloud.heartbeatAnswer.NextSeconds = 120
		r.run(t)
		defer r.stop()
		r.cloud.set(func() { r.cloud.calls, r.cloud.heartbeatErr = nil, fault.New(fault.Unavailable, "no") })
		s := r.startSession(t)
		time.Sleep(10 * time.Second)
		if n := len(r.cloud.heartbeats()); n < 3 || n > 12 {
			t.Errorf("%d heartbeats in ten seconds of failures, want fewer and fewer", n)
		}
		r.cloud.set(func() { r.cloud.calls, r.cloud.heartbeatErr = nil, nil })
		time.Sleep(20 * time.Second)
		beats := r.cloud.heartbeats()
		if len(beats) != 1 || !slices.Contains(beats[0].listed, s.ID) {
			t.Errorf("heartbeats afterwards: %+v, want one with the session", beats)
		}
	})
}
