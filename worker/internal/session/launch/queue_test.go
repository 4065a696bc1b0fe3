package launch_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// gate admits launches while it is open.
type gate struct {
	mu   sync.Mutex
	open bool
}

func (g *gate) Admit(_, launching int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open && launching == 0 {
		return nil
	}
	return fault.New(fault.Unavailable, "full")
}

func (g *gate) openGate() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = true
}

// newQueueFixture returns a Service whose launches fail after the authorization, and the
// gate of its machine.
func newQueueFixture(t *testing.T, change ...func(*launch.Options)) (*fixture, *gate) {
	g := &gate{}
	r := newFixture(t, append([]func(*launch.Options){func(o *launch.Options) {
		o.Admission, o.Launcher = g, &recordingLauncher{}
	}}, change...)...)
	return r, g
}

func waiting(wait time.Duration) launch.Request {
	request := byProfile()
	request.ProfileID, request.Wait = new(uuid.New()), wait
	return request
}

// queueUp starts launches that wait for the machine, one after another.
func (r *fixture) queueUp(t *testing.T, n int) (profiles []uuid.UUID, errs chan error) {
	t.Helper()
	errs = make(chan error, n)
	before := r.Waiting()
	for i := range n {
		request := waiting(time.Minute)
		profiles = append(profiles, *request.ProfileID)
		go func() {
			_, err := r.Launch(t.Context(), request)
			errs <- err
		}()
		eventually(t, func() bool { return r.Waiting() == before+i+1 })
	}
	return profiles, errs
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("did not happen")
		}
	}
}

func TestLaunch_WaitsForMachineInOrder(t *testing.T) {
	registry := prometheus.NewRegistry()
	r, machine := newQueueFixture(t, func(o *launch.Options) { o.Metrics = launch.NewMetrics(registry) })
	profiles, errs := r.queueUp(t, 6)
	if waits, waiting := queueMetrics(t, registry); waits != 0 || waiting != 6 {
		t.Errorf("%d launches have waited, %v wait, want 0 and 6", waits, waiting)
	}
	assertKind(t, r.fail(t, byProfile()), fault.Unavailable) // a launch that does not wait
	machine.openGate()
	for range profiles {
		assertKind(t, <-errs, fault.Internal) // its browser did not start
	}
	var order []uuid.UUID
	for _, request := range r.cloud.requests {
		order = append(order, *request.ProfileID)
	}
	if !slices.Equal(order, profiles) {
		t.Errorf("served %v, arrived %v", order, profiles)
	}
	if _, launching := r.Counts(); launching != 0 || r.Waiting() != 0 {
		t.Errorf("%d launching, %d waiting", launching, r.Waiting())
	}
	if waits, waiting := queueMetrics(t, registry); waits != 6 || waiting != 0 {
		t.Errorf("%d launches have waited, %v wait, want 6 and 0", waits, waiting)
	}
}

// queueMetrics returns how many launches waited and how many wait.
func queueMetrics(t *testing.T, registry *prometheus.Registry) (waits uint64, waiting float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		switch family.GetName() {
		case "svc_worker_queue_wait_seconds":
			waits = family.GetMetric()[0].GetHistogram().GetSampleCount()
		case "svc_worker_queue_length":
			waiting = family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return waits, waiting
}

// fail returns the error of a launch.
func (r *fixture) fail(t *testing.T, request launch.Request) error {
	t.Helper()
	_, err := r.Launch(t.Context(), request)
	if err == nil {
		t.Fatal("launched")
	}
	return err
}

func TestLaunch_WaitForMachineEnds(t *testing.T) {
	var waits []time.Duration
	r, _ := newQueueFixture(t, func(o *launch.Options) {
		o.MaxWaiting = 1
		o.Waited = func(_ context.Context, wait time.Duration, granted bool) {
			if granted {
				t.Error("granted")
			}
			waits = append(waits, wait)
		}
	})
	if err := r.fail(t, waiting(50*time.Millisecond)); err.Error() != "full" {
		t.Errorf("after the wait: %v", err)
	}
	if len(waits) != 1 || waits[0] < 50*time.Millisecond {
		t.Errorf("waited %v", waits)
	}
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := r.Launch(ctx, waiting(time.Minute))
		left <- err
	}()
	eventually(t, func() bool { return r.Waiting() == 1 })
	refusal := fault.From(r.fail(t, waiting(time.Minute)))
	if refusal.Kind != fault.Unavailable || len(refusal.Details) != 1 || refusal.Details[0].Constraint["limit"] != 1 {
		t.Errorf("the queue is full: %+v", refusal)
	}
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) || r.Waiting() != 0 {
		t.Errorf("the client left: %v, %d waiting", err, r.Waiting())
	}
}

func TestDrain_RefusesWaitingLaunches(t *testing.T) {
	r, machine := newQueueFixture(t)
	_, errs := r.queueUp(t, 2)
	r.Drain()
	for range 2 {
		assertKind(t, <-errs, fault.Unavailable)
	}
	r.Resume()
	_, errs = r.queueUp(t, 1)
	r.cloud.refusal, r.cloud.queued = fault.New(fault.PaymentRequired, "full"), 1<<30 // it waits for a slot
	machine.openGate()
	eventually(t, func() bool { r.cloud.mu.Lock(); defer r.cloud.mu.Unlock(); return len(r.cloud.requests) > 0 })
	r.Drain()
	if err := <-errs; err.Error() != "This worker is draining." {
		t.Errorf("got %v", err)
	}
}

func TestLaunch_RepeatsRequestForSlot(t *testing.T) {
	r, machine := newQueueFixture(t)
	machine.openGate()
	r.cloud.refusal, r.cloud.queued = fault.New(fault.PaymentRequired, "all slots in use"), 3
	if err := r.fail(t, waiting(time.Minute)); !fault.Is(err, fault.PaymentRequired) {
		t.Errorf("got %v", err)
	}
	requests := r.cloud.requests
	if len(requests) != 4 {
		t.Fatalf("%d requests, want 4", len(requests))
	}
	for _, each := range requests {
		if each.SessionID != requests[0].SessionID || each.Wait <= each.Poll || each.Poll != 25*time.Second {
			t.Errorf("asked %+v", each)
		}
	}
}

func TestLaunch_RepeatsFailedRequestForSlot(t *testing.T) {
	r, machine := newQueueFixture(t)
	machine.openGate()
	failures := 2
	r.cloud.decide = func(launch.Authorization) (bool, error) {
		if failures--; failures >= 0 {
			return false, fault.New(fault.Unavailable, "The cloud cannot be reached.")
		}
		return false, nil
	}
	assertKind(t, r.fail(t, waiting(time.Minute)), fault.Internal) // its browser did not start
	if len(r.cloud.requests) != 3 || r.cloud.requests[2].SessionID != r.cloud.requests[0].SessionID {
		t.Errorf("asked %+v", r.cloud.requests)
	}
	failures = 1 << 30
	assertKind(t, r.fail(t, waiting(300*time.Millisecond)), fault.Unavailable)
}

func TestLaunch_VerifiesKeyBeforeItWaits(t *testing.T) {
	r, _ := newQueueFixture(t)
	request := waiting(50 * time.Millisecond)
	request.OrganizationKey, request.Client = session.NewOrganizationKey("svc_callers"), "192.0.2.1"
	r.cloud.keyRefusal = fault.New(fault.Unauthenticated, "The organization key is not valid.")
	assertKind(t, r.fail(t, request), fault.Unauthenticated)
	r.cloud.keyRefusal = nil
	for range 2 { // the second time the key is known
		assertKind(t, r.fail(t, request), fault.Unavailable)
	}
	if !slices.Equal(r.cloud.verified, []string{"svc_callers", "svc_callers"}) {
		t.Errorf("verified %v", r.cloud.verified)
	}
	invalid := launch.Request{Spec: &launch.Spec{BrowserVersion: 1}, Wait: time.Minute}
	assertKind(t, r.fail(t, invalid), fault.NotInstalled)
}

func TestLaunch_ValidatesBeforeCapacity(t *testing.T) {
	r, _ := newQueueFixture(t) // its machine is full
	assertKind(t, r.fail(t, launch.Request{Spec: &launch.Spec{BrowserVersion: 1}}), fault.NotInstalled)
}
