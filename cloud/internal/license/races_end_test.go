package license_test

import (
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/shared/fault"
)

func TestRace05_EndBeforeStart(t *testing.T) {
	t.Run("the end is there", func(t *testing.T) {
		h := newFixture(t, 1)
		session := id()
		ended := h.mustEnd(session)
		if ended.SlotID != nil || ended.EndedAt == nil || *ended.EndReason != license.Unknown {
			t.Errorf("got %+v", ended)
		}
		if again := h.mustEnd(session); !again.EndedAt.Equal(*ended.EndedAt) || again.SlotID != nil {
			t.Errorf("got %+v and then %+v", ended, again)
		}
		_, err := h.Start(t.Context(), h.startReport(session))
		wantFault(t, err, fault.Conflict)
		_, err = h.Authorize(t.Context(), h.request(session))
		wantFault(t, err, fault.Conflict)
		if h.inUse() != 0 {
			t.Errorf("%d counted, want none", h.inUse())
		}
	})
	t.Run("the end is about to commit", func(t *testing.T) {
		h := newFixture(t, 1)
		other := h.replicas()[0]
		report := h.startReport(h.authorize())
		unlock := h.lockFeed()
		ended := async(func() error { _, err := other.End(t.Context(), h.endReport(report.SessionID)); return err })
		h.awaitBlocked(1)
		started := async(func() error { _, err := h.Start(t.Context(), report); return err })
		h.awaitBlocked(2)
		unlock()
		wantFault(t, <-started, fault.Conflict)
		if err := <-ended; err != nil || h.state(report.SessionID) != "released ended" || h.inUse() != 0 {
			t.Errorf("%v; %s, %d counted", err, h.state(report.SessionID), h.inUse())
		}
	})
	t.Run("the start waits for its slot", func(t *testing.T) {
		h := newFixture(t, 1)
		report := h.startReport(id())
		unlock := h.lockCounter()
		started := async(func() error { _, err := h.Start(t.Context(), report); return err })
		h.awaitBlocked(1)
		if ended := h.mustEnd(report.SessionID); ended.SlotID != nil {
			t.Errorf("got %+v", ended)
		}
		unlock()
		wantFault(t, <-started, fault.Conflict)
		if h.state(report.SessionID) != "released ended" || h.inUse() != 0 {
			t.Errorf("%s, %d counted", h.state(report.SessionID), h.inUse())
		}
	})
	t.Run("the start is about to commit", func(t *testing.T) {
		h := newFixture(t, 1)
		other := h.replicas()[0]
		report := h.startReport(id())
		unlock := h.lockFeed()
		started := async(func() error { _, err := h.Start(t.Context(), report); return err })
		h.awaitBlocked(1)
		ended := async(func() error { _, err := other.End(t.Context(), h.endReport(report.SessionID)); return err })
		h.awaitBlocked(2)
		unlock()
		if err, err2 := <-started, <-ended; err != nil || err2 != nil {
			t.Error(err, err2)
		}
		if got := h.feedEntry(report.SessionID); h.state(report.SessionID) != "released ended" || h.inUse() != 0 || got.Starts != 1 || got.Ends != 1 {
			t.Errorf("%s, %d counted, heard %+v", h.state(report.SessionID), h.inUse(), got)
		}
	})
}

func TestRace06_DoubleEnd(t *testing.T) {
	reasons := []license.EndReason{license.Idle, license.Crash, license.MaxDuration}
	for name, launch := range map[string]func(*fixture) uuid.UUID{"running": (*fixture).start, "reserved": (*fixture).authorize} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, 5)
			replicas := h.replicas()
			other, session := h.start(), launch(h)
			unlock := h.lockSlot(session)
			answers := make([]license.Session, 9)
			var group sync.WaitGroup
			for i := range answers {
				group.Go(func() {
					report := h.endReport(session)
					report.EndReason = reasons[i%3]
					var err error
					if answers[i], err = replicas[i%3].End(t.Context(), report); err != nil {
						t.Error(err)
					}
				})
			}
			h.awaitBlocked(3) // one batch of each replica
			unlock()
			group.Wait()
			for _, got := range answers {
				if got.EndReason == nil || *got.EndReason != *answers[0].EndReason || !got.EndedAt.Equal(*answers[0].EndedAt) {
					t.Errorf("got %+v and %+v", answers[0], got)
				}
			}
			if h.state(session) != "released ended" || h.state(other) != "running" || h.inUse() != 1 || h.feedEntry(session).Ends != 1 {
				t.Errorf("%s, %s, %d counted, %d ends heard", h.state(session), h.state(other), h.inUse(), h.feedEntry(session).Ends)
			}
		})
	}
}
