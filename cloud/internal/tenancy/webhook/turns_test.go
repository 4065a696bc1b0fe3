package webhook

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/testenv"
)

// deliverer returns a deliverer that sends to n endpoints at once.
func (f *fixture) deliverer(n int) *deliverer {
	f.t.Helper()
	d := &deliverer{Service: f.Service, slots: make(chan struct{}, n)}
	f.t.Cleanup(d.sending.Wait)
	return d
}

func (f *fixture) publishAll() {
	f.t.Helper()
	for {
		n, err := f.publish(f.t.Context())
		f.must(err)
		if n == 0 {
			return
		}
	}
}

// TestDeliverer_SendsInTurns: with a place for one endpoint, an endpoint with many due
// deliveries gives it to another organization after its turn.
func TestDeliverer_SendsInTurns(t *testing.T) {
	f, busy, waiting := newFixture(t), newReceiver(t), newReceiver(t)
	f.Options.Turn = time.Nanosecond
	e, _ := f.endpoint(busy.URL)
	for range 2*sendBatch + 1 {
		f.startSession(f.org)
	}
	d := f.deliverer(1)
	f.publishAll()
	f.must(d.startDue(t.Context()))
	d.sending.Wait()
	if n := len(busy.all()); n != sendBatch {
		t.Fatalf("%d requests in a turn, want %d", n, sendBatch)
	}
	f.org = f.tenant()
	f.endpoint(waiting.URL)
	f.startSession(f.org)
	f.publishAll()
	for range 2 {
		f.must(d.startDue(t.Context()))
		d.sending.Wait()
	}
	if len(waiting.all()) != 1 || len(busy.all()) != 2*sendBatch {
		t.Errorf("%d and %d requests; endpoint %s", len(waiting.all()), len(busy.all()), e.ID)
	}
	f.exec(`UPDATE webhook_endpoints SET lease_until = now() - interval '1 minute' WHERE organization_id = $1`, f.org)
	f.startSession(f.org)
	f.publishAll()
	f.must(d.startDue(t.Context()))
	d.sending.Wait()
	if len(waiting.all()) != 2 {
		t.Error("the endpoint that waited longer is not the next one")
	}
}

// TestDeliverer_LimitsTheEndpointsOfAnOrganization: receivers of one organization that do
// not respond leave places for others.
func TestDeliverer_LimitsTheEndpointsOfAnOrganization(t *testing.T) {
	f, hanging, r := newFixture(t), newReceiver(t), newReceiver(t)
	hanging.setAnswer(func(_ http.ResponseWriter, r *http.Request, _ body) { <-r.Context().Done() })
	for range maxOfTenant + 3 {
		f.endpoint(hanging.URL)
	}
	f.startSession(f.org)
	greedy := f.org
	f.org = f.tenant()
	f.endpoint(r.URL)
	f.startSession(f.org)
	f.publishAll()
	d := f.deliverer(maxTargets)
	for range 2 {
		f.must(d.startDue(t.Context()))
	}
	var leased int
	f.must(f.System.GetContext(t.Context(), &leased, `SELECT count(*) FROM webhook_endpoints WHERE organization_id = $1 AND lease_until > now()`, greedy))
	if leased != maxOfTenant {
		t.Errorf("%d endpoints of an organization are leased, want %d", leased, maxOfTenant)
	}
	testenv.Eventually(t, "the event of the other organization arrives", func() bool { return len(r.all()) == 1 })
}

// TestDeliverer_RestsWhileDeliveriesWait: the end of a session waits for the next attempt
// to send its start, so it is not due before. A blocked delivery does not hide others.
func TestDeliverer_RestsWhileDeliveriesWait(t *testing.T) {
	f, r := newFixture(t), newReceiver(t)
	f.Options.Backoff = time.Hour
	e, _ := f.endpoint(r.URL)
	r.setAnswer(status(http.StatusInternalServerError))
	sessions := make([]uuid.UUID, dueWindow+1)
	for i := range sessions {
		sessions[i] = f.startSession(f.org)
	}
	f.publishAll()
	f.exec(`UPDATE webhook_deliveries SET attempts = 1, due_at = now() + interval '1 hour'`)
	for _, each := range sessions {
		f.endSession(each)
	}
	other := f.startSession(f.org)
	f.publishAll()
	r.setAnswer(nil)
	f.run()
	testenv.Eventually(t, "the event of another session arrives", func() bool { return len(r.all()) == 1 })
	if got := r.all()[0].event.Data["sessionId"]; got != other.String() {
		t.Errorf("got session %v", got)
	}
	testenv.Eventually(t, "no delivery is due", func() bool {
		return f.text(`SELECT count(*)::text FROM webhook_deliveries WHERE state = 'pending' AND due_at <= now()`) == "0"
	})
	f.exec(`UPDATE webhook_deliveries SET due_at = now() WHERE type = 'session.started' AND state = 'pending'`)
	testenv.Eventually(t, "all arrive", func() bool {
		return f.text(`SELECT count(*)::text FROM webhook_deliveries WHERE state = 'pending'`) == "0"
	})
	if n := len(f.deliveries(e.ID)); n != 100 || len(r.all()) != 2*len(sessions)+1 {
		t.Errorf("%d deliveries on a page, %d requests", n, len(r.all()))
	}
}
