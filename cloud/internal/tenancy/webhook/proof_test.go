package webhook

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/testenv"
)

// unreliable is a receiver that accepts some requests, and refuses, holds or cuts off
// others. While it is dead, it cuts off all.
type unreliable struct {
	dead     atomic.Bool
	requests atomic.Int64
	mu       sync.Mutex
	accepted []body // in the order in which the responses were decided
}

func (u *unreliable) answer(w http.ResponseWriter, r *http.Request, e body) {
	n := u.requests.Add(1)
	switch chance := rand.N(1000); {
	case u.dead.Load(), chance < 20:
		panic(http.ErrAbortHandler)
	case chance < 22:
		<-r.Context().Done() // no response
		return
	case chance < 100:
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	u.mu.Lock()
	u.accepted = append(u.accepted, e)
	u.mu.Unlock()
	if n%100 == 0 { // accepted, but the response is lost
		panic(http.ErrAbortHandler)
	}
}

func (u *unreliable) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.accepted)
}

// TestProof_DeliversEveryEventInOrderOfItsSession: the receiver is unreliable and dies for
// a while, and the replicas that send are stopped twice in the middle of requests. Every
// event arrives, and the first arrival of a session's start precedes that of its end.
func TestProof_DeliversEveryEventInOrderOfItsSession(t *testing.T) {
	f, r := newFixture(t), newReceiver(t)
	f.Options = Options{Every: 5 * time.Millisecond, Timeout: 200 * time.Millisecond, Backoff: 2 * time.Millisecond, Grace: time.Nanosecond}
	e, _ := f.endpoint(r.URL)
	u := &unreliable{}
	r.setAnswer(u.answer)
	sessions := testenv.Depth(200, 10000) / 2
	ids := make([]uuid.UUID, sessions)
	stops := []func(){f.run(), f.run()}
	var changes sync.WaitGroup
	for worker := range 4 {
		changes.Go(func() {
			for i := worker; i < sessions; i += 4 {
				ids[i] = f.startSession(f.org)
				f.endSession(ids[i])
			}
		})
	}
	for _, part := range []int{4, 2} {
		wait(t, func() bool { return u.count() > 2*sessions/part })
		for _, stop := range stops {
			stop()
		}
		f.exec(`UPDATE webhook_endpoints SET lease_id = gen_random_uuid(), lease_until = now() + interval '1 second'`) // as if the replica had been killed
		u.dead.Store(part == 2)
		stops = []func(){f.run(), f.run()}
	}
	before := u.requests.Load()
	testenv.Eventually(t, "requests to the dead receiver", func() bool { return u.requests.Load() > before })
	u.dead.Store(false)
	changes.Wait()
	const open = `SELECT ((SELECT count(*) FROM events WHERE position IS NULL) + (SELECT count(*) FROM webhook_deliveries WHERE state <> 'delivered'))::text`
	wait(t, func() bool {
		f.exec(`UPDATE webhook_deliveries SET due_at = now() WHERE state = 'pending' AND attempts > 6`) // instead of a long pause
		return f.text(open) == "0"
	})
	u.check(t, ids)
	t.Logf("%d events, %d requests, %d accepted, endpoint %s", 2*sessions, u.requests.Load(), u.count(), e.ID)
}

// wait is testenv.Eventually for many events.
func wait(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the events are not delivered")
		}
	}
}

// check checks that both events of each session were accepted, the start first.
func (u *unreliable) check(t *testing.T, ids []uuid.UUID) {
	t.Helper()
	first := map[string]int{} // the first acceptance of an event, by type and session
	for i, each := range u.accepted {
		key := each.Type + " " + each.Data["sessionId"].(string)
		if _, again := first[key]; !again {
			first[key] = i
		}
	}
	for _, id := range ids {
		started, someStart := first["session.started "+id.String()]
		ended, someEnd := first["session.ended "+id.String()]
		if !someStart || !someEnd || started > ended {
			t.Errorf("session %s: start accepted %t at %d, end accepted %t at %d", id, someStart, started, someEnd, ended)
		}
	}
	if len(first) != 2*len(ids) {
		t.Errorf("%d events were accepted, want %d", len(first), 2*len(ids))
	}
}

// TestProof_OneDeadReceiverDoesNotDelayAnother: an endpoint that never responds holds only
// its own deliveries.
func TestProof_OneDeadReceiverDoesNotDelayAnother(t *testing.T) {
	f, r := newFixture(t), newReceiver(t)
	f.Options.Timeout = time.Minute
	hanging := newReceiver(t)
	hanging.setAnswer(func(_ http.ResponseWriter, r *http.Request, _ body) { <-r.Context().Done() })
	for range 5 {
		f.endpoint(hanging.URL)
	}
	f.endpoint(r.URL)
	f.run()
	for range 20 {
		f.endSession(f.startSession(f.org))
	}
	testenv.Eventually(t, "the events arrive", func() bool { return len(r.all()) == 40 })
}
