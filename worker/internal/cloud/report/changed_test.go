package report_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
)

func (r *fixture) rename(s session.Session, name string) session.Session {
	renamed, _ := r.sessions.Relabel(s.ID, &name, nil)
	return renamed
}

func (c *fakeCloud) names() (names []string) {
	for _, k := range c.accepted() {
		names = append(names, k.what+" "+k.name)
	}
	return names
}

func assertNames(t *testing.T, got []string, want ...string) {
	t.Helper()
	same := len(got) == len(want)
	for i := 0; same && i < len(got); i++ {
		same = got[i] == want[i]
	}
	if !same {
		t.Errorf("got reports %q, want %q", got, want)
	}
}

func TestChanged_ReportsStartAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.run(t)
		defer r.stop()
		s := r.startSession(t)
		r.Changed(r.rename(s, "a"))
		time.Sleep(time.Minute)
		assertNames(t, r.cloud.names(), "start ", "start a")
		if left := journalFiles(t, r.dir); len(left) > 0 {
			t.Errorf("the journal contains %v", left)
		}
	})
}

func TestChanged_LatestChangeIsReportedAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.cloud.down = true
		r.run(t)
		defer r.stop()
		s := r.startSession(t)
		first, second := r.rename(s, "a"), r.rename(s, "b")
		r.Changed(second)
		r.Changed(first) // the requests of two clients overtook each other
		time.Sleep(time.Minute)
		r.cloud.set(func() { r.cloud.down = false })
		time.Sleep(time.Minute)
		assertNames(t, r.cloud.names(), "start b")
	})
}

func TestChanged_ChangeDuringDeliveryIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.run(t)
		defer r.stop()
		s := r.startSession(t)
		r.cloud.starting = func() { time.Sleep(time.Second) }
		r.Changed(r.rename(s, "a"))
		time.Sleep(100 * time.Millisecond)
		r.Changed(r.rename(s, "b"))
		time.Sleep(time.Minute)
		assertNames(t, r.cloud.names(), "start ", "start a", "start b")
	})
}

func TestChanged_RefusedChangeIsNotRefusedStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.run(t)
		defer r.stop()
		s := r.startSession(t)
		r.cloud.set(func() { r.cloud.fails[s.ID] = fault.New(fault.Conflict, "The session has ended.") })
		r.Changed(r.rename(s, "a"))
		time.Sleep(time.Minute)
		if waiting, rejected := r.Counts(); waiting != 0 || rejected != 0 {
			t.Errorf("%d reports are pending, %d set aside", waiting, rejected)
		}
		if left := journalFiles(t, r.dir); len(left) > 0 {
			t.Errorf("the journal contains %v", left)
		}
	})
}
