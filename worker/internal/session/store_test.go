package session_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/worker/internal/session"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func add(s *session.Store, startedAt time.Time) session.Session {
	return s.Add(session.Session{ID: uuid.New(), LaunchID: uuid.New(), StartedAt: startedAt})
}

func TestStore_LiveSeqIsAboveListedSessions(t *testing.T) {
	s := session.NewStore(clock.NewFake(start))
	first := add(s, start)
	live, seq := s.Live()
	second := add(s, start)
	if len(live) != 1 || live[0].ID != first.ID {
		t.Fatalf("live = %v, want only the first session", live)
	}
	if first.Seq >= seq || seq >= second.Seq {
		t.Errorf("first %d, heartbeat %d, second %d: want them in this order", first.Seq, seq, second.Seq)
	}
}

func TestStore_EndIsIdempotent(t *testing.T) {
	s := session.NewStore(clock.NewFake(start))
	entry := add(s, start)
	code := 3
	if _, ok := s.End(entry.ID, session.End{At: start, Status: session.Exited, Reason: session.Crash, ExitCode: &code}); !ok {
		t.Fatal("the first End returned false")
	}
	if _, ok := s.End(entry.ID, session.End{At: start, Status: session.Killed, Reason: session.ByRequest}); ok {
		t.Error("the second End returned true")
	}
	got, _ := s.Get(entry.ID)
	if got.Status != session.Exited || got.EndReason != session.Crash || *got.ExitCode != 3 {
		t.Errorf("got %+v, want the first end kept", got)
	}
	if live, _ := s.Live(); len(live) != 0 {
		t.Errorf("live = %v after the end", live)
	}
	if _, ok := s.End(uuid.New(), session.End{}); ok {
		t.Error("End of an unknown session returned true")
	}
}

func TestStore_FinalSaveResultReplacesPending(t *testing.T) {
	pending := session.End{At: start, SaveResult: &session.SaveResult{Reason: session.DataPending}}
	s := session.NewStore(clock.NewFake(start))
	before, after := add(s, start), add(s, start)
	s.SetSaveResult(before.ID, session.SaveResult{Saved: true}) // the cloud answers between the save and the end
	s.End(before.ID, pending)
	s.End(after.ID, pending)
	s.SetSaveResult(after.ID, session.SaveResult{Saved: true})
	for _, id := range []uuid.UUID{before.ID, after.ID} {
		if got, _ := s.Get(id); got.SaveResult == nil || *got.SaveResult != (session.SaveResult{Saved: true}) {
			t.Errorf("got %+v", got.SaveResult)
		}
	}
}

func TestStore_AddStepAfterEndIsIgnored(t *testing.T) {
	s := session.NewStore(clock.NewFake(start))
	entry := add(s, start)
	s.AddStep(entry.ID, session.Step{Name: session.Ready, At: start})
	s.End(entry.ID, session.End{At: start.Add(time.Second), Status: session.Killed})
	late := s.AddStep(entry.ID, session.Step{Name: session.Reported, At: start.Add(2 * time.Second)})
	if steps := late.Timeline; late.Status != session.Killed || len(steps) != 2 || steps[0].Name != session.Ready || steps[1].Name != session.Ended {
		t.Errorf("%s with the steps %v", late.Status, steps)
	}
}

func TestStore_DropsEndedSessionsAfterRetention(t *testing.T) {
	now := clock.NewFake(start)
	s := session.NewStore(now)
	ended, running := add(s, start), add(s, start)
	s.End(ended.ID, session.End{At: start, Status: session.Killed})
	now.Advance(session.Retention)
	if _, ok := s.Get(ended.ID); !ok {
		t.Error("the session was removed too early")
	}
	now.Advance(time.Second)
	if _, ok := s.Get(ended.ID); ok {
		t.Error("the session is still listed after an hour")
	}
	if _, ok := s.ByLaunch(ended.LaunchID); ok {
		t.Error("the session is still found by its launch after an hour")
	}
	if got, ok := s.ByLaunch(running.LaunchID); !ok || got.ID != running.ID {
		t.Error("a running session was removed")
	}
}

func TestStore_ListSortsFiltersAndPages(t *testing.T) {
	s := session.NewStore(clock.NewFake(start))
	a, b, c := add(s, start), add(s, start.Add(time.Minute)), add(s, start.Add(2*time.Minute))
	s.End(a.ID, session.End{At: start.Add(9 * time.Second), Status: session.Killed})
	s.End(c.ID, session.End{At: start.Add(5 * time.Second), Status: session.Killed})
	for _, tc := range []struct {
		name    string
		status  session.Status
		request page.Request
		want    []uuid.UUID
		total   int
	}{
		{"newest first", "", page.Request{Page: 1, Limit: 10, SortBy: "startedAt", Desc: true}, []uuid.UUID{c.ID, b.ID, a.ID}, 3},
		{"oldest first", "", page.Request{Page: 1, Limit: 10, SortBy: "startedAt"}, []uuid.UUID{a.ID, b.ID, c.ID}, 3},
		{"second page", "", page.Request{Page: 2, Limit: 2, SortBy: "startedAt"}, []uuid.UUID{c.ID}, 3},
		{"past the end", "", page.Request{Page: 9, Limit: 2}, nil, 3},
		{"killed by end", session.Killed, page.Request{Page: 1, Limit: 10, SortBy: "endedAt"}, []uuid.UUID{c.ID, a.ID}, 2},
		{"running", session.Running, page.Request{Page: 1, Limit: 10}, []uuid.UUID{b.ID}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := s.List(session.Filter{Status: tc.status}, tc.request)
			if got.Total != tc.total || len(got.Items) != len(tc.want) {
				t.Fatalf("total %d, %d items; want %d, %d", got.Total, len(got.Items), tc.total, len(tc.want))
			}
			for i, item := range got.Items {
				if item.ID != tc.want[i] {
					t.Errorf("item %d is %s, want %s", i, item.ID, tc.want[i])
				}
			}
		})
	}
}

func TestStore_RelabelNeedsRunningSession(t *testing.T) {
	s := session.NewStore(clock.NewFake(start))
	entry := add(s, start)
	named, ok := s.Relabel(entry.ID, new("a"), nil)
	_, beat := s.Live()
	labelled, _ := s.Relabel(entry.ID, nil, map[string]string{"team": "x"})
	if !ok || named.Name != "a" || labelled.Name != "a" || labelled.Metadata["team"] != "x" {
		t.Errorf("got %+v, then %+v", named, labelled)
	}
	if entry.Seq >= named.Seq || named.Seq >= beat || beat >= labelled.Seq {
		t.Errorf("numbers %d, %d, heartbeat %d, %d: want them in this order", entry.Seq, named.Seq, beat, labelled.Seq)
	}
	s.End(entry.ID, session.End{At: start, Status: session.Killed})
	if got, ok := s.Relabel(entry.ID, new("b"), nil); ok || got.Name != "a" {
		t.Errorf("after the end: %+v, %t", got, ok)
	}
	if _, ok := s.Relabel(uuid.New(), new("b"), nil); ok {
		t.Error("an unknown session was changed")
	}
}
