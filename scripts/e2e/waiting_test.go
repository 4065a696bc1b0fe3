package e2e

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
)

// waitingSlots is the limit that the waiting launches share.
const waitingSlots = 5

// waitingTest has the waiting launches of one organization, like their workers would
// request them.
type waitingTest struct {
	owner   *account
	apis    []*cloudapi.ClientWithResponses
	profile uuid.UUID
	boot    uuid.UUID
	repeats atomic.Int32 // of requests that failed
	served  atomic.Int32
}

// TestWaiting_AllAreServedInOrder has launches wait for 5 slots at 3 replicas, one of
// which is killed twice while others wait. All are served, in the order of their arrival, and never more
// than 5 at once.
func TestWaiting_AllAreServedInOrder(t *testing.T) {
	t.Parallel()
	launches := testenv.Depth(60, 200)
	fleet := newCloudCluster(t)
	owner := fleet.signUp(t)
	owner.setLimit(t, fleet.database, waitingSlots)
	w := &waitingTest{
		owner: owner, apis: fleet.apis(t, "X-API-Key", owner.key), boot: uuid.New(),
		profile: owner.profile(t, cloudapi.CreateProfileRequest{BrowserVersion: 156}),
	}
	var held []uuid.UUID
	for range waitingSlots {
		held = append(held, w.authorize(t, 0))
	}
	var launching sync.WaitGroup
	killed := [...]chan struct{}{make(chan struct{}), make(chan struct{})}
	waiting := make([]atomic.Int32, len(fleet.clouds)) // launches of each replica
	for i := range launches {
		waiting[i%len(waiting)].Add(1)
		launching.Go(func() {
			session := w.authorize(t, i)
			if session == uuid.Nil {
				return
			}
			waiting[i%len(waiting)].Add(-1)
			served := int(w.served.Add(1))
			for death, done := range killed { // otherwise all may be served before
				if served > (death+1)*launches/3 {
					select {
					case <-done:
					case <-t.Context().Done():
					}
				}
			}
			time.Sleep(rand.N(20 * time.Millisecond))
			w.end(t, i, session)
		})
	}
	places := map[uuid.UUID]int64{}
	eventually(t, time.Minute, "all launches wait", func() error {
		places = readPlaces(t, fleet.database, owner.org)
		if len(places) < launches {
			return fmt.Errorf("%d of %d", len(places), launches)
		}
		return nil
	})
	began := time.Now()
	for i, session := range held {
		w.end(t, i, session)
	}
	for death, done := range killed {
		eventually(t, time.Minute, "some launches are served", func() error {
			if n := int(w.served.Load()); n < (death+1)*launches/3 {
				return fmt.Errorf("%d of %d", n, launches)
			}
			return nil
		})
		victim := fleet.clouds[mostWaiting(waiting)]
		victim.kill()
		close(done)
		victim.start(t)
	}
	launching.Wait()
	t.Logf("%d launches served in %v at %d slots; %d requests repeated after a failure",
		w.served.Load(), time.Since(began).Round(time.Millisecond), waitingSlots, w.repeats.Load())
	if int(w.served.Load()) != launches || w.repeats.Load() == 0 {
		t.Errorf("%d of %d launches were served, %d requests were interrupted", w.served.Load(), launches, w.repeats.Load())
	}
	assertOrder(t, fleet.database, owner.org, places)
	if left := readPlaces(t, fleet.database, owner.org); len(left) > 0 {
		t.Errorf("%d launches are still in the queue", len(left))
	}
}

// mostWaiting returns the replica with the most launches.
func mostWaiting(waiting []atomic.Int32) (replica int) {
	for i := range waiting {
		if waiting[i].Load() > waiting[replica].Load() {
			replica = i
		}
	}
	return replica
}

// authorize waits for a slot and returns the session. It repeats the request like a
// worker: at another replica after a failure, and while the launch is queued.
func (w *waitingTest) authorize(t *testing.T, turn int) uuid.UUID {
	session := uuid.Must(uuid.NewV7())
	for over := time.Now().Add(5 * time.Minute); time.Now().Before(over) && !t.Failed(); {
		answer, err := w.apis[turn%len(w.apis)].AuthorizeLaunchWithResponse(t.Context(), cloudapi.AuthorizeRequest{
			MachineId: "worker-1", BootId: w.boot, SessionId: session, ProfileId: &w.profile,
			WaitSeconds: new(sharedapi.WaitSeconds(300)), PollSeconds: new(int32(10)),
		})
		switch {
		case err != nil || answer.StatusCode() == http.StatusServiceUnavailable:
			w.repeats.Add(1)
			turn++
		case answer.JSON200 != nil:
			return session
		case answer.JSON402 == nil || answer.JSON402.Data.Queued == nil:
			t.Errorf("a waiting launch got %d: %s", answer.StatusCode(), answer.Body)
			return uuid.Nil
		}
	}
	t.Errorf("a launch was not served")
	return uuid.Nil
}

func (w *waitingTest) end(t *testing.T, turn int, session uuid.UUID) {
	for ; !t.Failed(); turn++ {
		answer, err := w.apis[turn%len(w.apis)].EndProfileSessionWithResponse(t.Context(), w.profile, session, cloudapi.EndSessionRequest{})
		if err == nil && answer.JSON200 != nil {
			return
		}
	}
}

// readPlaces returns the sessions in the queue with their places.
func readPlaces(t *testing.T, database *sqlx.DB, org uuid.UUID) map[uuid.UUID]int64 {
	t.Helper()
	var rows []struct {
		Session uuid.UUID `db:"session_id"`
		Place   int64     `db:"place"`
	}
	if err := database.SelectContext(t.Context(), &rows, `SELECT session_id, place FROM license_queue WHERE organization_id = $1`, org); err != nil {
		t.Fatal(err)
	}
	places := map[uuid.UUID]int64{}
	for _, row := range rows {
		places[row.Session] = row.Place
	}
	return places
}

// heldSlot is when a session of the queue, or of before it with the place 0, held a slot.
type heldSlot struct {
	Session uuid.UUID `db:"session_id"`
	From    time.Time `db:"reserved_at"`
	Until   time.Time `db:"released_at"`
	place   int64
}

// assertOrder reads from the rows of the slots when each was held. At each grant there
// must have been a free slot for the launch and for every launch ahead of it.
func assertOrder(t *testing.T, database *sqlx.DB, org uuid.UUID, places map[uuid.UUID]int64) {
	t.Helper()
	var slots []heldSlot
	err := database.SelectContext(t.Context(), &slots, `SELECT session_id, reserved_at, released_at FROM license_slots WHERE organization_id = $1`, org)
	if err != nil {
		t.Fatal(err)
	}
	for i := range slots {
		slots[i].place = places[slots[i].Session]
	}
	// The grants of one statement have the same time.
	slices.SortFunc(slots, func(a, b heldSlot) int { return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.place, b.place)) })
	for i, s := range slots {
		held, ahead := 0, 0
		for j, other := range slots {
			switch {
			case j < i && other.Until.After(s.From):
				held++
			case j > i && other.place < s.place:
				ahead++
			}
		}
		if held+ahead >= waitingSlots {
			t.Errorf("place %d was served with %d slots in use and %d launches ahead", s.place, held, ahead)
		}
	}
}

// TestWaiting_LaunchesOfAWorker launches more browsers than the machine and the
// organization allow.
func TestWaiting_LaunchesOfAWorker(t *testing.T) {
	t.Parallel()
	fleet := newCloudCluster(t)
	owner := fleet.signUp(t)
	owner.setLimit(t, fleet.database, 1)
	w := startWorker(t, fleet.clouds[0], owner.key, "MAX_SESSIONS=2")
	spec := workerapi.LaunchProfileRequest{Spec: &sharedapi.LaunchSpec{}, WaitSeconds: new(sharedapi.WaitSeconds(120))}
	first := w.launch(t, spec)
	refusal := w.requireLaunchRefused(t, workerapi.LaunchProfileRequest{Spec: &sharedapi.LaunchSpec{}}, http.StatusPaymentRequired)
	assertBounds(t, (*refusal.Details)[0], 1)
	launched := make(chan workerapi.BrowserSession)
	const launches = 4 // one waits for the slot, the others for the machine
	for range launches {
		go func() {
			answer, err := w.api.LaunchProfileWithResponse(t.Context(), spec)
			if err != nil || answer.JSON201 == nil {
				t.Errorf("a waiting launch: %v, %s", err, answer.Body)
				close(launched)
				return
			}
			launched <- answer.JSON201.Data
		}()
	}
	for range launches {
		w.killSession(t, first.Id)
		var ok bool
		if first, ok = <-launched; !ok {
			return
		}
	}
	w.killSession(t, first.Id)
}
