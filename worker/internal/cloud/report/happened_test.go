package report_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/session"
)

// happen reports an event with a reason.
func (r *fixture) happen(s session.Session, reason string) {
	found, _ := r.sessions.Get(s.ID)
	found.OrganizationKey = s.OrganizationKey
	r.Happened(found, session.Event{ID: uuid.New(), Type: session.HandoverRequested, At: time.Now(), Reason: reason})
}

// reports returns the accepted reports with the reasons of their events.
func (c *fakeCloud) reports() (all []string) {
	for _, k := range c.accepted() {
		text := k.what
		for _, e := range k.events {
			text += " " + e.Reason
		}
		all = append(all, text)
	}
	return all
}

func assertReports(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got reports %q, want %q", got, want)
	}
}

func TestHappened_RepeatsStartOrEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.run(t)
		defer r.stop()
		s := r.startSession(t)
		r.happen(s, "a")
		time.Sleep(time.Minute)
		r.endSession(s)
		time.Sleep(time.Minute)
		r.happen(s, "b")
		time.Sleep(time.Minute)
		assertReports(t, r.cloud.reports(), "start", "start a", "end", "end b")
		if left := journalFiles(t, r.dir); len(left) > 0 {
			t.Errorf("the journal contains %v", left)
		}
	})
}

func TestHappened_EventsAreReportedInOrderAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r := newFixture(t, dir)
		r.run(t)
		s := r.startSession(t)
		r.cloud.set(func() { r.cloud.down = true })
		time.Sleep(time.Hour)
		r.happen(s, "a")
		if oldest := r.OldestPending(); !oldest.Equal(time.Now()) {
			t.Errorf("the oldest report is of %s", oldest)
		}
		r.happen(s, "b")
		r.endSession(s)
		r.happen(s, "c")
		time.Sleep(time.Minute)
		r.stop()
		assertReports(t, r.cloud.reports(), "start")
		next := newFixture(t, dir) // the worker is restarted
		next.run(t)
		defer next.stop()
		time.Sleep(time.Minute)
		assertReports(t, next.cloud.reports(), "start a b", "end c")
	})
}

func TestHappened_EventsDuringDeliveryAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.run(t)
		defer r.stop()
		s := r.startSession(t)
		r.cloud.starting, r.cloud.slow = func() { time.Sleep(time.Second) }, time.Second
		r.happen(s, "a")
		time.Sleep(100 * time.Millisecond)
		r.happen(s, "b")
		time.Sleep(time.Minute)
		r.endSession(s)
		time.Sleep(100 * time.Millisecond)
		r.happen(s, "c")
		time.Sleep(time.Minute)
		assertReports(t, r.cloud.reports(), "start", "start a", "start a b", "end", "end c")
	})
}

func TestHappened_ReportHasTheLastHundred(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.cloud.down = true
		r.run(t)
		defer r.stop()
		s := r.startSession(t)
		for range 150 {
			r.happen(s, "x")
		}
		r.happen(s, "last")
		r.cloud.set(func() { r.cloud.down = false })
		time.Sleep(time.Minute)
		sent := r.cloud.accepted()[0].events
		if len(sent) != 100 || sent[99].Reason != "last" {
			t.Errorf("sent %d events", len(sent))
		}
	})
}
