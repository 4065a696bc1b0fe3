package license_test

import (
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/shared/fault"
)

func TestRace05EndBeforeStart(t *testing.T) {
	t.Run("the end is there", func(t *testing.T) {
		h := open(t, 1)
		session := id()
		ended := h.mustEnd(session)
		if ended.SlotID != nil || ended.EndedAt == nil || *ended.EndReason != license.Unknown {
			t.Errorf("got %+v", ended)
		}
		if again := h.mustEnd(session); !again.EndedAt.Equal(*ended.EndedAt) || again.SlotID != nil {
			t.Errorf("got %+v and then %+v", ended, again)
		}
		_, err := h.Start(t.Context(), h.report(session))
		wantFault(t, err, fault.Conflict)
		_, err = h.Authorize(t.Context(), h.request(session))
		wantFault(t, err, fault.Conflict)
		if h.inUse() != 0 {
			t.Errorf("%d counted, want none", h.inUse())
		}
	})
	t.Run("the end is about to commit", func(t *testing.T) {
		h := open(t, 1)
		other := h.replicas()[0]
		report := h.report(h.authorize())
		unlock := h.lockFeed()
		ended := background(func() error { _, err := other.End(t.Context(), h.ending(report.SessionID)); return err })
		h.awaitBlocked(1)
		started := background(func() error { _, err := h.Start(t.Context(), report); return err })
		h.awaitBlocked(2)
		unlock()
		wantFault(t, <-started, fault.Conflict)
		if err := <-ended; err != nil || h.state(report.SessionID) != "released ended" || h.inUse() != 0 {
			t.Errorf("%v; %s, %d counted", err, h.state(report.SessionID), h.inUse())
		}
	})
	t.Run("the start waits for its slot", func(t *testing.T) {
		h := open(t, 1)
		report := h.report(id())
		unlock := h.lockCounter()
		started := background(func() error { _, err := h.Start(t.Context(), report); return err })
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
		h := open(t, 1)
		other := h.replicas()[0]
		report := h.report(id())
		unlock := h.lockFeed()
		started := background(func() error { _, err := h.Start(t.Context(), report); return err })
		h.awaitBlocked(1)
		ended := background(func() error { _, err := other.End(t.Context(), h.ending(report.SessionID)); return err })
		h.awaitBlocked(2)
		unlock()
		if err, err2 := <-started, <-ended; err != nil || err2 != nil {
			t.Error(err, err2)
		}
		if got := h.heard(report.SessionID); h.state(report.SessionID) != "released ended" || h.inUse() != 0 || got.Starts != 1 || got.Ends != 1 {
			t.Errorf("%s, %d counted, heard %+v", h.state(report.SessionID), h.inUse(), got)
		}
	})
}

func TestRace06DoubleEnd(t *testing.T) {
	reasons := []license.EndReason{license.Idle, license.Crash, license.MaxDuration}
	for name, launch := range map[string]func(*house) uuid.UUID{"running": (*house).start, "reserved": (*house).authorize} {
		t.Run(name, func(t *testing.T) {
			h := open(t, 5)
			replicas := h.replicas()
			other, session := h.start(), launch(h)
			unlock := h.lockSlot(session)
			answers := make([]license.Session, 9)
			var group sync.WaitGroup
			for i := range answers {
				group.Go(func() {
					report := h.ending(session)
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
			if h.state(session) != "released ended" || h.state(other) != "running" || h.inUse() != 1 || h.heard(session).Ends != 1 {
				t.Errorf("%s, %s, %d counted, %d ends heard", h.state(session), h.state(other), h.inUse(), h.heard(session).Ends)
			}
		})
	}
}
