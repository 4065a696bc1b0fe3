package report_test

import (
	"errors"
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

// commit reports a saved version of a session. settled has the result.
func (r *fixture) commit(t *testing.T, s session.Session) (settled chan error, err error) {
	t.Helper()
	settled = make(chan error, 1)
	err = r.Commit(t.Context(), report.Commit{
		ID: uuid.New(), SessionID: s.ID, ProfileID: s.ProfileID, Keep: 3, At: time.Now(), OrganizationKey: s.OrganizationKey,
		Settled: func(err error) { settled <- err },
	})
	return settled, err
}

func commitCall(s session.Session) call { return call{what: "commit", session: s.ID} }

func TestCommit_IsRepeatedBeforeEndUntilAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.run(t)
		defer r.stop()
		s := r.startSession(t)
		r.cloud.set(func() { r.cloud.down = true })
		settled, err := r.commit(t, s)
		if !errors.Is(err, report.ErrPending) {
			t.Fatalf("got %v", err)
		}
		r.endSession(s)
		assertUnacknowledged(t, r, ownKey) // an authorize request would end the lease
		time.Sleep(10 * time.Minute)
		if len(settled) > 0 {
			t.Fatal("settled without an acknowledgment")
		}
		if beats := r.cloud.heartbeats(); !slices.Contains(beats[len(beats)-1].listed, s.ID) {
			t.Error("a heartbeat omits the session, which ends the lease")
		}
		r.cloud.set(func() { r.cloud.down = false })
		time.Sleep(2 * time.Minute) // a retry, then a heartbeat
		if err := <-settled; err != nil {
			t.Error(err)
		}
		assertDelivered(t, r.cloud.accepted(), startCall(s), commitCall(s), endCall(s))
		if beats := r.cloud.heartbeats(); slices.Contains(beats[len(beats)-1].listed, s.ID) {
			t.Error("a heartbeat lists an ended session")
		}
		if left := journalFiles(t, r.dir); len(left) > 0 {
			t.Errorf("the journal contains %v", left)
		}
	})
}

func TestCommit_WaitsForShortOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.run(t)
		defer r.stop()
		s := r.startSession(t)
		r.cloud.set(func() { r.cloud.down = true })
		time.AfterFunc(3*time.Second, func() { r.cloud.set(func() { r.cloud.down = false }) })
		if settled, err := r.commit(t, s); err != nil || <-settled != nil {
			t.Error(err)
		}
	})
}

func TestCommit_ReturnsRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		s := r.startSession(t)
		r.cloud.fails[s.ID] = fault.New(fault.Conflict, "another version")
		if settled, err := r.commit(t, s); !fault.Is(err, fault.Conflict) || !fault.Is(<-settled, fault.Conflict) {
			t.Errorf("got %v", err)
		}
		if left := journalFiles(t, r.dir); len(left) != 1 || !strings.HasSuffix(left[0], "-commit.json.rejected") {
			t.Errorf("the journal contains %v", left)
		}
	})
}

// The first worker stops before it reports the end of the session, too.
func TestCommit_IsDeliveredByNextBoot(t *testing.T) {
	for name, ended := range map[string]bool{"with its end": true, "without an end": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := newFixture(t, t.TempDir())
				s := first.startSession(t)
				first.cloud.down = true
				if _, err := first.commit(t, s); !errors.Is(err, report.ErrPending) {
					t.Fatalf("got %v", err)
				}
				want := []call{commitCall(s)}
				if ended {
					first.endSession(s)
					want = append(want, endCall(s))
				}
				second := newFixture(t, first.dir)
				second.cloud.down = true
				second.run(t)
				defer second.stop()
				time.Sleep(time.Minute)
				if beats := second.cloud.heartbeats(); !slices.Contains(beats[len(beats)-1].listed, s.ID) {
					t.Error("a heartbeat omits the session, which ends the lease")
				}
				second.cloud.set(func() { second.cloud.down = false })
				time.Sleep(time.Minute)
				assertDelivered(t, second.cloud.accepted(), want...)
			})
		})
	}
}

func TestCommit_IsDroppedBeforeItsObjectsAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		s := r.startSession(t)
		r.cloud.down = true
		settled, _ := r.commit(t, s)
		time.Sleep(report.MaxCommitAge)
		r.cloud.down = false
		r.Flush(t.Context())
		if err := <-settled; err == nil {
			t.Error("acknowledged")
		}
		assertDelivered(t, r.cloud.accepted(), startCall(s))
	})
}
