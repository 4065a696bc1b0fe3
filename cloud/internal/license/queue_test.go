package license_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/shared/fault"
)

// waiting returns a request that waits for up to a minute.
func (h *fixture) waiting(req *license.Request) { req.Wait, req.Poll = time.Minute, time.Minute }

// queued returns the sessions in the queue, in order.
func (h *fixture) queued() []uuid.UUID {
	h.t.Helper()
	var sessions []uuid.UUID
	if err := h.db.Select(&sessions, `SELECT session_id FROM license_queue WHERE organization_id = $1 ORDER BY place`, h.org); err != nil {
		h.t.Fatal(err)
	}
	return sessions
}

// queueUp starts a waiting launch and returns when it is in the queue.
func (h *fixture) queueUp(ctx context.Context, s *license.Service, change func(*license.Request)) chan authorizeResult {
	h.t.Helper()
	before := len(h.queued())
	answer := h.authorizeAsync(ctx, s, func(req *license.Request) {
		h.waiting(req)
		if change != nil {
			change(req)
		}
	})
	eventually(h.t, func() bool { return len(h.queued()) == before+1 })
	return answer
}

func (h *fixture) mustBeServed(answer chan authorizeResult) uuid.UUID {
	h.t.Helper()
	v := <-answer
	if v.err != nil || !v.grant.Allowed {
		h.t.Fatalf("the waiting launch got %+v, %v", v.grant, v.err)
	}
	return v.session
}

func TestAuthorize_WaitingLaunchesAreServedInOrder(t *testing.T) {
	h := newFixture(t, 2)
	held := []uuid.UUID{h.authorize(), h.authorize()}
	replicas := h.replicas()
	var order []uuid.UUID
	var mu sync.Mutex
	var group sync.WaitGroup
	const launches = 24
	for i := range launches {
		answer := h.queueUp(t.Context(), replicas[i%len(replicas)], nil)
		group.Go(func() {
			v := <-answer
			mu.Lock()
			defer mu.Unlock()
			if v.err != nil || !v.grant.Allowed || v.grant.Current > 2 {
				t.Errorf("launch %d: %+v, %v", i, v.grant, v.err)
			}
			order = append(order, v.session)
			held = append(held, v.session)
		})
	}
	arrived := h.queued()
	for i := range launches {
		mu.Lock()
		session := held[i]
		mu.Unlock()
		h.mustEnd(session)
		eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(order) == i+1
		})
	}
	group.Wait()
	if !slices.Equal(order, arrived) {
		t.Errorf("served %v, arrived %v", order, arrived)
	}
	if h.inUse() != 2 || len(h.queued()) != 0 {
		t.Errorf("%d in use, %d queued", h.inUse(), len(h.queued()))
	}
}

func TestAuthorize_RefusesWhenTheWaitIsOver(t *testing.T) {
	h := newFixture(t, 1)
	h.authorize()
	req := h.request(id())
	req.Wait, req.Poll = 100*time.Millisecond, 100*time.Millisecond
	grant, err := h.Authorize(t.Context(), req)
	if err != nil || grant.Allowed || grant.Queued || grant.Reason != license.ConcurrencyLimit || grant.Current != 1 || *grant.Limit != 1 {
		t.Errorf("got %+v, %v", grant, err)
	}
	if left := h.queued(); len(left) != 0 {
		t.Errorf("%v are still in the queue", left)
	}
}

func TestAuthorize_RepeatedRequestKeepsItsPlace(t *testing.T) {
	h := newFixture(t, 1)
	session := h.authorize()
	replicas := h.replicas()
	req := h.request(id())
	for i := range 3 {
		req.Wait, req.Poll = time.Minute, 0
		grant, err := replicas[i].Authorize(t.Context(), req)
		if err != nil || grant.Allowed || !grant.Queued || grant.Position != 1 {
			t.Fatalf("got %+v, %v", grant, err)
		}
		if i == 0 {
			h.queueUp(t.Context(), h.Service, nil)
		}
	}
	h.mustEnd(session)
	grant, err := replicas[0].Authorize(t.Context(), req)
	if err != nil || !grant.Allowed {
		t.Errorf("got %+v, %v", grant, err)
	}
}

func TestAuthorize_CallerThatLeavesIsForgotten(t *testing.T) {
	h := newFixture(t, 1)
	session := h.authorize()
	ctx, leave := context.WithCancel(t.Context())
	first, second := h.queueUp(ctx, h.Service, nil), h.queueUp(t.Context(), h.Service, nil)
	leave()
	if v := <-first; !errors.Is(v.err, context.Canceled) {
		t.Errorf("got %+v, %v", v.grant, v.err)
	}
	eventually(t, func() bool { return len(h.queued()) == 1 })
	h.mustEnd(session)
	h.mustBeServed(second)
}

func TestAuthorize_PlaceOfDeadReplicaEnds(t *testing.T) {
	h := newFixture(t, 1)
	session := h.authorize()
	req := h.request(id())
	req.Wait = time.Minute // Poll is 0: like a replica that dies afterwards
	if grant, err := h.Authorize(t.Context(), req); err != nil || !grant.Queued {
		t.Fatalf("got %+v, %v", grant, err)
	}
	h.mustEnd(session)
	if grant, err := h.Authorize(t.Context(), h.request(id())); err != nil || grant.Allowed {
		t.Fatalf("the free slot belongs to the first in the queue; got %+v, %v", grant, err)
	}
	h.exec(`UPDATE license_queue SET lease_until = now() - interval '1 second'`)
	h.authorize()
	if left := h.queued(); len(left) != 0 {
		t.Errorf("%v are still in the queue", left)
	}
}

func TestAuthorize_LaterRequestTakesOverThePlace(t *testing.T) {
	h := newFixture(t, 1)
	session := h.authorize()
	waits := id()
	sameSession := func(req *license.Request) { req.SessionID = waits }
	older := h.queueUp(t.Context(), h.Service, sameSession)
	newer := h.authorizeAsync(t.Context(), h.replicas()[0], func(req *license.Request) { h.waiting(req); sameSession(req) })
	if v := <-older; !fault.Is(v.err, fault.Conflict) {
		t.Errorf("the older request got %+v, %v", v.grant, v.err)
	}
	h.mustEnd(session)
	if got := h.mustBeServed(newer); got != waits || h.inUse() != 1 {
		t.Errorf("%d in use", h.inUse())
	}
}

func TestAuthorize_WaitingLaunchSeesLimitAndExpiry(t *testing.T) {
	h := newFixture(t, 0)
	first := h.queueUp(t.Context(), h.Service, nil)
	h.setLimit(1)
	session := h.mustBeServed(first)
	second := h.queueUp(t.Context(), h.Service, nil)
	h.age(session, 3*time.Minute) // the reservation expires
	for done := false; !done; {
		h.clock.Advance(time.Second)
		select {
		case v := <-second:
			if done = true; v.err != nil || !v.grant.Allowed {
				t.Errorf("got %+v, %v", v.grant, v.err)
			}
		case <-time.After(50 * time.Millisecond):
		}
	}
	third := h.queueUp(t.Context(), h.Service, nil)
	h.setLimit(-1)
	h.mustBeServed(third)
}

func TestAuthorize_EndedSessionLeavesTheQueue(t *testing.T) {
	h := newFixture(t, 1)
	session := h.authorize()
	waits := id()
	h.queueUp(t.Context(), h.Service, func(req *license.Request) { req.SessionID = waits })
	second := h.queueUp(t.Context(), h.Service, nil)
	h.mustEnd(waits)
	h.mustEnd(session)
	h.mustBeServed(second)
}

func TestAuthorize_WaitsForAProfile(t *testing.T) {
	h := newFixture(t, 5)
	var mu sync.Mutex
	full := true
	answer := h.authorizeAsync(t.Context(), h.Service, func(req *license.Request) {
		h.waiting(req)
		req.ProfileID = nil
		req.NewProfile = func(context.Context, *sqlx.Tx) (uuid.UUID, error) {
			mu.Lock()
			defer mu.Unlock()
			if full {
				return uuid.Nil, license.ProfileLimitError{Current: 5, Limit: 5}
			}
			return h.profile, nil
		}
	})
	eventually(t, func() bool { return h.Waiting() == 1 })
	h.authorize() // others are not held up
	if left := h.queued(); len(left) != 0 {
		t.Errorf("%v are in the queue", left)
	}
	mu.Lock()
	full = false
	mu.Unlock()
	h.mustBeServed(answer)
}

func TestAuthorize_LaunchWithSpecWaitsInTheQueue(t *testing.T) {
	h := newFixture(t, 1)
	session := h.authorize()
	var created int
	answer := h.queueUp(t.Context(), h.Service, func(req *license.Request) {
		req.ProfileID = nil
		req.NewProfile = func(context.Context, *sqlx.Tx) (uuid.UUID, error) { created++; return h.profile, nil }
	})
	h.mustEnd(session)
	h.mustBeServed(answer)
	if created != 1 {
		t.Errorf("%d profiles made, want 1", created)
	}
}

func TestStopWaiting_KeepsPlaces(t *testing.T) {
	h := newFixture(t, 1)
	h.authorize()
	stopping := h.replicas()[0]
	answer := h.queueUp(t.Context(), stopping, nil)
	stopping.StopWaiting()
	if v := <-answer; v.err != nil || !v.grant.Queued || v.grant.Position != 1 || len(h.queued()) != 1 {
		t.Errorf("got %+v, %v", v.grant, v.err)
	}
	req := h.request(id())
	h.waiting(&req)
	if grant, err := stopping.Authorize(t.Context(), req); err != nil || !grant.Queued {
		t.Errorf("after StopWaiting: %+v, %v", grant, err)
	}
	if err := stopping.Close(); err != nil {
		t.Error(err)
	}
}

func TestAudit_RepairsTheCounterOfTheQueue(t *testing.T) {
	h := newFixture(t, 1)
	h.exec(`UPDATE license_org SET queued = 3 WHERE organization_id = $1`, h.org)
	if n, err := h.Audit(t.Context()); n != 1 || err != nil {
		t.Errorf("%d repaired, %v", n, err)
	}
	h.authorize()
}

func TestAuthorize_ReplicaExtendsItsLeases(t *testing.T) {
	h := newFixture(t, 1)
	h.authorize()
	ctx, leave := context.WithCancel(t.Context())
	answer := h.queueUp(ctx, h.Service, nil)
	h.exec(`UPDATE license_queue SET lease_until = now() + interval '8 seconds'`)
	eventually(t, func() bool {
		return query[bool](h, `SELECT lease_until > now() + interval '9 seconds' FROM license_queue`)
	})
	leave()
	<-answer
}

// Waiting launches of many organizations cost one connection.
func TestAuthorize_WaitingCostsNoConnection(t *testing.T) {
	h := newFixture(t, 1)
	h.authorize()
	ctx, leave := context.WithCancel(t.Context())
	var answers []chan authorizeResult
	for range 200 {
		answers = append(answers, h.authorizeAsync(ctx, h.Service, h.waiting))
	}
	eventually(t, func() bool { return len(h.queued()) == 200 })
	busy := 0
	for range 20 {
		busy = max(busy, query[int](h, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND state <> 'idle'`))
		time.Sleep(10 * time.Millisecond)
	}
	if busy > 3 {
		t.Errorf("%d connections are in use", busy)
	}
	leave()
	for _, answer := range answers {
		<-answer
	}
	eventually(t, func() bool { return len(h.queued()) == 0 && h.Waiting() == 0 })
}
