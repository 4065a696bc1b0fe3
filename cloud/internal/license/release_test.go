package license_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// authorizeResult is the result of a call of Authorize.
type authorizeResult struct {
	session uuid.UUID
	grant   license.Grant
	err     error
}

// authorizeAsync authorizes a new session in the background.
func (h *fixture) authorizeAsync(ctx context.Context, s *license.Service, change func(*license.Request)) chan authorizeResult {
	req := h.request(id())
	if change != nil {
		change(&req)
	}
	answer := make(chan authorizeResult, 1)
	go func() {
		grant, err := s.Authorize(ctx, req)
		answer <- authorizeResult{req.SessionID, grant, err}
	}()
	return answer
}

func TestAuthorize_BatchGrantsInOrderOfArrival(t *testing.T) {
	h := newFixture(t, 4)
	release := h.lockCounter()
	var answers []chan authorizeResult
	for i := range 7 {
		answers = append(answers, h.authorizeAsync(t.Context(), h.Service, nil))
		if i == 0 {
			h.awaitBlocked(1)
		} else {
			eventually(t, func() bool { return h.WaitingForGrants(h.org) == i })
		}
	}
	release()
	for i, answer := range answers {
		v := <-answer
		if v.err != nil || v.grant.Allowed != (i < 4) || v.grant.Current != min(i+1, 4) {
			t.Errorf("number %d: %+v, %v", i, v.grant, v.err)
		}
	}
}

func TestAuthorize_InvalidRequestInBatchFailsAlone(t *testing.T) {
	h := newFixture(t, 10)
	release := h.lockCounter()
	answers := []chan authorizeResult{h.authorizeAsync(t.Context(), h.Service, nil)}
	h.awaitBlocked(1)
	for i := range 5 {
		answers = append(answers, h.authorizeAsync(t.Context(), h.Service, func(req *license.Request) {
			if i == 2 {
				req.MachineID = "worker\x00"
			}
		}))
		eventually(t, func() bool { return h.WaitingForGrants(h.org) == i+1 })
	}
	release()
	for i, answer := range answers {
		if v := <-answer; (v.err != nil) != (i == 3) || v.grant.Allowed != (i != 3) {
			t.Errorf("number %d: %+v, %v", i, v.grant, v.err)
		}
	}
	if h.inUse() != 5 {
		t.Errorf("%d counted, want 5", h.inUse())
	}
}

// failingObserver is a feedObserver that fails for one session.
type failingObserver struct {
	feedObserver
	session uuid.UUID
}

func (f failingObserver) SessionsEnded(ctx context.Context, tx *sqlx.Tx, ended []license.Ended) error {
	for _, e := range ended {
		if e.SessionID == f.session {
			panic("not that one")
		}
	}
	return f.feedObserver.SessionsEnded(ctx, tx, ended)
}

func TestEnd_ObserverFailureFailsOneEnd(t *testing.T) {
	h := newFixture(t, 10)
	var sessions []uuid.UUID
	for range 6 {
		sessions = append(sessions, h.start())
	}
	s, err := license.New(t.Context(), h.db, failingObserver{session: sessions[3]}, slog.New(slog.DiscardHandler), license.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	release := h.lockCounter()
	errs := make([]error, len(sessions))
	var group sync.WaitGroup
	for i, session := range sessions {
		group.Go(func() { _, errs[i] = s.End(t.Context(), h.endReport(session)) })
		if i == 0 {
			h.awaitBlocked(1)
		} else {
			eventually(t, func() bool { return s.WaitingForReleases(h.org) == i })
		}
	}
	release()
	group.Wait()
	for i, session := range sessions {
		if want := map[bool]string{false: "released ended", true: "running"}[i == 3]; (errs[i] != nil) != (i == 3) || h.state(session) != want {
			t.Errorf("number %d: %v, %s", i, errs[i], h.state(session))
		}
	}
}

// One batch contains every kind of end.
func TestEnd_BatchAnswersEachSeparately(t *testing.T) {
	h := newFixture(t, 10)
	first, twice, failed, ended, lapsed, foreign, unheard := h.start(), h.start(), h.authorize(), h.start(), h.start(), h.start(), id()
	h.mustEnd(ended)
	h.age(lapsed, 7*time.Hour)
	h.mustReclaim()
	report := func(session uuid.UUID, reason license.EndReason) license.EndReport {
		report := h.endReport(session)
		report.EndReason = reason
		return report
	}
	wrong := report(foreign, license.Idle)
	wrong.ProfileID = id()
	otherProfile := report(unheard, license.Drain)
	otherProfile.ProfileID = id()
	tests := []struct {
		report  license.EndReport
		reason  license.EndReason // of the answer; "" means NotFound
		hasSlot bool
	}{
		{report(first, license.Idle), license.Idle, true}, // runs alone
		{report(twice, license.Crash), license.Crash, true},
		{report(twice, license.Idle), license.Crash, true},
		{report(failed, ""), license.Unknown, true},
		{report(ended, license.Idle), license.Unknown, true},
		{report(lapsed, license.MaxDuration), license.MaxDuration, true},
		{wrong, "", false},
		{report(unheard, license.Crash), license.Crash, false},
		{otherProfile, "", false},
		{report(unheard, license.Idle), license.Crash, false},
	}
	release := h.lockCounter()
	var group sync.WaitGroup
	for i, test := range tests {
		group.Go(func() {
			got, err := h.End(t.Context(), test.report)
			if test.reason == "" {
				wantFault(t, err, fault.NotFound)
				return
			}
			if err != nil || *got.EndReason != test.reason || (got.SlotID != nil) != test.hasSlot {
				t.Errorf("number %d: %+v, %v", i, got, err)
			}
		})
		h.awaitEnds(i + 1)
	}
	release()
	group.Wait()
	if h.inUse() != 1 || h.state(foreign) != "running" || h.feedEntry(twice).Ends != 1 {
		t.Errorf("%d counted, the foreign one is %s, %d ends heard", h.inUse(), h.state(foreign), h.feedEntry(twice).Ends)
	}
}

func TestAuthorize_ReleasesSlotOfCancelledCaller(t *testing.T) {
	for name, spec := range map[string]bool{"of a profile": false, "of a spec": true} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, 1)
			ctx, cancel := context.WithCancel(t.Context())
			release := h.lockCounter()
			newProfile := newProfileFunc(h, nil)
			answer := h.authorizeAsync(ctx, h.Service, func(req *license.Request) {
				if spec {
					req.ProfileID, req.NewProfile = nil, newProfile
				}
			})
			h.awaitBlocked(1)
			cancel()
			release()
			v := <-answer
			if v.err == nil || v.grant.Allowed {
				t.Errorf("got %+v, %v", v.grant, v.err)
			}
			eventually(t, func() bool { return h.inUse() == 0 })
			req := h.request(v.session)
			if grant, err := h.Authorize(t.Context(), req); err != nil || !grant.Allowed {
				t.Errorf("repeated request: %+v, %v", grant, err)
			}
		})
	}
}

func TestAuthorize_RepeatKeepsSlotOfCancelledCaller(t *testing.T) {
	h := newFixture(t, 3)
	other := h.replica(dbtest.Open(t, h.dsn, pg.Options{}))
	running := h.start()
	unlock := h.holdLocks(func(tx *sqlx.Tx) { tx.MustExec(`SELECT FROM license_slots WHERE session_id = $1 FOR UPDATE`, running) })
	ended := make(chan error, 1)
	go func() {
		_, err := h.End(t.Context(), h.endReport(running))
		ended <- err
	}()
	h.awaitBlocked(1) // further releases are queued behind that end

	ctx, cancel := context.WithCancel(t.Context())
	release := h.lockCounter()
	left := h.authorizeAsync(ctx, h.Service, nil)
	h.awaitBlocked(2)
	cancel()
	release()
	v := <-left
	if !errors.Is(v.err, context.Canceled) || h.WaitingForReleases(h.org) != 1 {
		t.Fatalf("got %+v, %v; %d releases queued", v.grant, v.err, h.WaitingForReleases(h.org))
	}
	grant, err := other.Authorize(t.Context(), h.request(v.session))
	if err != nil || !grant.Allowed {
		t.Fatalf("repeated request: %+v, %v", grant, err)
	}
	unlock()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	h.WaitIdle()
	if got := h.state(v.session); got != "reserved" || h.inUse() != 1 {
		t.Errorf("the granted slot is %s, %d counted", got, h.inUse())
	}
}

func TestAuthorize_ManyCancelledCallersLeakNoSlot(t *testing.T) {
	h := newFixture(t, 200)
	for range 5 {
		var held atomic.Int64
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), rand.N(20*time.Millisecond))
				defer cancel()
				session := id()
				grant, err := h.Authorize(ctx, h.request(session))
				switch {
				case err != nil && !errors.Is(err, context.DeadlineExceeded):
					t.Error(err)
				case err == nil && grant.Allowed && rand.N(2) == 0:
					if _, err := h.End(context.WithoutCancel(ctx), h.endReport(session)); err != nil {
						t.Error(err)
					}
				case err == nil && grant.Allowed:
					held.Add(1)
				}
			})
		}
		group.Wait()
		h.WaitIdle()
		live := query[int](h, `SELECT count(*) FROM license_slots WHERE state <> 'released'`)
		if live != int(held.Load()) || h.inUse() != live {
			t.Fatalf("%d acknowledged, %d live, %d counted", held.Load(), live, h.inUse())
		}
		h.exec(`DELETE FROM license_slots`)
		h.exec(`UPDATE license_org SET in_use = 0`)
	}
	if n := h.db.Stats().InUse; n != 0 {
		t.Errorf("%d connections are in use", n)
	}
}

func TestAuthorize_GrantsFreedSlotDespiteFullCache(t *testing.T) {
	h := newFixture(t, 1)
	for range 5 {
		session := h.authorize()
		if grant, err := h.Authorize(t.Context(), h.request(id())); err != nil || grant.Allowed {
			t.Fatalf("got %+v, %v", grant, err)
		}
		h.mustEnd(session)
	}
}

func TestClose_DrainsCalls(t *testing.T) {
	h := newFixture(t, 10)
	s, err := license.New(t.Context(), h.db, feedObserver{}, slog.New(slog.DiscardHandler), license.Options{})
	if err != nil {
		t.Fatal(err)
	}
	release := h.lockCounter()
	answers := []chan authorizeResult{h.authorizeAsync(t.Context(), s, nil)}
	h.awaitBlocked(1)
	ctx, cancel := context.WithCancel(t.Context())
	left := h.authorizeAsync(ctx, s, nil)
	eventually(t, func() bool { return s.WaitingForGrants(h.org) == 1 })
	answers = append(answers, h.authorizeAsync(t.Context(), s, nil))
	eventually(t, func() bool { return s.WaitingForGrants(h.org) == 2 })
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	eventually(t, func() bool {
		_, err := s.Authorize(t.Context(), license.Request{OrgID: id()})
		return fault.Is(err, fault.Unavailable)
	})
	cancel()
	<-left
	release()
	for _, answer := range answers {
		if v := <-answer; v.err != nil || !v.grant.Allowed {
			t.Errorf("got %+v, %v", v.grant, v.err)
		}
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if h.inUse() != 2 {
		t.Errorf("%d counted, want 2", h.inUse())
	}
}
