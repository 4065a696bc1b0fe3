package report_test

import (
	"os"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

func sessionsOf(ends []launch.Ended) (ids []uuid.UUID) {
	for _, end := range ends {
		ids = append(ids, end.SessionID)
	}
	return ids
}

func assertUnacknowledged(t *testing.T, r *fixture, key session.OrganizationKey, want ...session.Session) {
	t.Helper()
	got := sessionsOf(r.Unacknowledged(key))
	same := len(got) == len(want)
	for i := 0; same && i < len(got); i++ {
		same = got[i] == want[i].ID
	}
	if !same {
		t.Errorf("got unacknowledged ends of %v, want %v", got, want)
	}
}

func TestUnacknowledged_ListsEndsOfKeyOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir()) // nothing is delivered
		own, a, brought := r.startSession(t), r.startSessionWithKey(t, keyA), r.startSessionWithKey(t, ownKey)
		for _, s := range []session.Session{own, a, brought} {
			r.endSession(s)
		}
		assertUnacknowledged(t, r, session.OrganizationKey{}, own, brought)
		assertUnacknowledged(t, r, ownKey, own, brought)
		assertUnacknowledged(t, r, keyA, a)
		assertUnacknowledged(t, r, keyB)
		if end := r.Unacknowledged(keyA)[0]; end.ProfileID != a.ProfileID || end.Status != session.Exited || end.Reason != session.Crash || end.At.IsZero() {
			t.Errorf("got end %+v", end)
		}
	})
}

func TestUnacknowledged_CarriedEndsStayInJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		s := r.startSession(t)
		r.endSession(s)
		assertUnacknowledged(t, r, ownKey, s)
		assertUnacknowledged(t, r, ownKey, s) // a failed authorize request changes nothing
		r.Carried(r.Unacknowledged(ownKey))
		assertUnacknowledged(t, r, ownKey)
		if left := journalFiles(t, r.dir); len(left) != 1 {
			t.Errorf("the journal contains %v", left)
		}
		r.Flush(t.Context())
		assertDelivered(t, r.cloud.accepted(), startCall(s), endCall(s)) // each report once
		if left := journalFiles(t, r.dir); len(left) != 0 {
			t.Errorf("the journal contains %v", left)
		}
	})
}

func TestUnacknowledged_SkipsEndsWithPendingStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.cloud.down = true
		s := r.startSession(t)
		r.endSession(s)
		assertUnacknowledged(t, r, ownKey)
		r.cloud.set(func() { r.cloud.down = false })
		if r.Deliver(t.Context(), keyA) {
			t.Error("Deliver delivered a report of another key")
		}
		if !r.Deliver(t.Context(), ownKey) {
			t.Error("Deliver delivered no report")
		}
		assertDelivered(t, r.cloud.accepted(), startCall(s), endCall(s))
		if r.Deliver(t.Context(), ownKey) {
			t.Error("Deliver delivered a report twice")
		}
	})
}

func TestUnacknowledged_IsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		for range 150 {
			r.endSession(r.addSession())
		}
		first := r.Unacknowledged(ownKey)
		r.Carried(first)
		if rest := r.Unacknowledged(ownKey); len(first) != 100 || len(rest) != 50 {
			t.Errorf("got %d ends, then %d", len(first), len(rest))
		}
	})
}

func TestUnacknowledged_IncludesEndBeforeSync(t *testing.T) {
	r := newFixture(t, t.TempDir())
	s := r.addSession()
	writing, written := make(chan struct{}), make(chan struct{})
	r.OnSync(func(file *os.File) error {
		select {
		case <-writing:
		default:
			close(writing)
			<-written
		}
		return file.Sync()
	})
	ended := make(chan struct{})
	go func() { defer close(ended); r.endSession(s) }()
	<-writing
	assertUnacknowledged(t, r, ownKey, s)
	close(written)
	<-ended
}
