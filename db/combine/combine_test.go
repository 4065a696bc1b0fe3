package combine

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/browser-svc/svc/shared/fault"
)

// heldCombiner is a Combiner whose batches wait until the test releases them. It
// doubles its input.
type heldCombiner struct {
	*Combiner[uuid.UUID, int, int]
	org     uuid.UUID
	mu      sync.Mutex
	batches [][]int
	lost    []int
	stacks  [][]byte
	fail    func(batch []int) error // may be nil
	held    chan struct{}           // nil: do not wait
	began   chan struct{}           // receives once for each held batch
}

func newHeldCombiner() *heldCombiner {
	d := &heldCombiner{org: uuid.Must(uuid.NewV7()), began: make(chan struct{}, 1000)}
	d.Combiner = New(d.run, Options[uuid.UUID, int]{OnLost: func(_ uuid.UUID, q int) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.lost = append(d.lost, q)
	}})
	return d
}

func (d *heldCombiner) run(_ context.Context, _ uuid.UUID, batch []int) ([]int, error) {
	d.mu.Lock()
	d.batches, d.stacks = append(d.batches, slices.Clone(batch)), append(d.stacks, debug.Stack())
	held, fail := d.held, d.fail
	d.mu.Unlock()
	if held != nil {
		d.began <- struct{}{}
		<-held
	}
	if fail != nil {
		if err := fail(batch); err != nil {
			return nil, err
		}
	}
	answers := make([]int, len(batch))
	for i, q := range batch {
		answers[i] = 2 * q
	}
	return answers, nil
}

func (d *heldCombiner) awaitWaiting(t *testing.T, n int) {
	t.Helper()
	await(t, func() bool { return d.Waiting(d.org) == n })
}

func await(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("timeout waiting for the condition")
		}
	}
}

// reply is the result of one call.
type reply struct {
	q, answer int
	err       error
}

// queueBehind starts call 0 and holds its batch, queues the other calls behind it in
// order, and returns a function that releases all batches. Each result is sent to
// replies.
func (d *heldCombiner) queueBehind(ctx context.Context, t *testing.T, others ...int) (release func(), replies chan reply) {
	t.Helper()
	replies = make(chan reply, 2+len(others))
	d.held = make(chan struct{})
	ask := func(q int) {
		answer, err := d.Do(ctx, d.org, q)
		replies <- reply{q, answer, err}
	}
	go ask(0)
	<-d.began
	for i, q := range others {
		go ask(q)
		d.awaitWaiting(t, i+1)
	}
	return sync.OnceFunc(func() { close(d.held) }), replies
}

func TestDo_LoneCallRunsInCallersGoroutine(t *testing.T) {
	d := newHeldCombiner()
	for q := range 3 {
		if answer, err := d.Do(t.Context(), d.org, q); err != nil || answer != 2*q {
			t.Errorf("%d: got %d, %v", q, answer, err)
		}
		if !bytes.Contains(d.stacks[q], []byte(t.Name())) {
			t.Errorf("call %d ran in another goroutine:\n%s", q, d.stacks[q])
		}
	}
	if len(d.queues) != 0 {
		t.Errorf("the idle combiner still has %d keys", len(d.queues))
	}
}

func TestDo_QueuedCallsFormNextBatchInOrder(t *testing.T) {
	d := newHeldCombiner()
	release, replies := d.queueBehind(t.Context(), t, 5, 3, 9, 1)
	release()
	for range 5 {
		if r := <-replies; r.err != nil || r.answer != 2*r.q {
			t.Errorf("got %+v", r)
		}
	}
	if diff := cmp.Diff([][]int{{0}, {5, 3, 9, 1}}, d.batches); diff != "" {
		t.Error(diff)
	}
	d.Wait()
	if len(d.queues) != 0 {
		t.Errorf("the idle combiner still has %d keys", len(d.queues))
	}
}

func TestDo_BoundsBatchSize(t *testing.T) {
	d := newHeldCombiner()
	others := make([]int, 2*MaxBatch+1)
	for i := range others {
		others[i] = i + 1
	}
	release, replies := d.queueBehind(t.Context(), t, others...)
	release()
	for range len(others) + 1 {
		if r := <-replies; r.err != nil || r.answer != 2*r.q {
			t.Fatalf("got %+v", r)
		}
	}
	var sizes []int
	for _, batch := range d.batches {
		sizes = append(sizes, len(batch))
	}
	if diff := cmp.Diff([]int{1, MaxBatch, MaxBatch, 1}, sizes); diff != "" || !slices.Equal(slices.Concat(d.batches[1:]...), others) {
		t.Errorf("sizes: %s", diff)
	}
}

func TestDo_KeysRunIndependently(t *testing.T) {
	d := newHeldCombiner()
	release, replies := d.queueBehind(t.Context(), t)
	go func() {
		answer, err := d.Do(t.Context(), uuid.Must(uuid.NewV7()), 7)
		replies <- reply{7, answer, err}
	}()
	<-d.began // while the first batch is held
	release()
	<-replies
	<-replies
}

func TestDo_DropsQueuedCallOnCancel(t *testing.T) {
	d := newHeldCombiner()
	release, replies := d.queueBehind(t.Context(), t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := d.Do(ctx, d.org, 2)
		left <- err
	}()
	d.awaitWaiting(t, 2)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	d.awaitWaiting(t, 1)
	release()
	<-replies
	<-replies
	if diff := cmp.Diff([][]int{{0}, {1}}, d.batches); diff != "" || len(d.lost) != 0 {
		t.Errorf("lost %v; %s", d.lost, diff)
	}
}

func TestDo_ReportsRunningCallLostOnCancel(t *testing.T) {
	d := newHeldCombiner()
	ctx, cancel := context.WithCancel(t.Context())
	release, replies := d.queueBehind(ctx, t, 1) // call 0 runs in its caller's goroutine, so its caller returns only when the call is done
	d.held <- struct{}{}                         // releases 0
	<-d.began                                    // 1 is in progress
	if r := <-replies; r.err != nil {
		t.Fatal(r.err)
	}
	cancel()
	if r := <-replies; r.q != 1 || !errors.Is(r.err, context.Canceled) {
		t.Errorf("got %+v", r)
	}
	release()
	d.Wait()
	if !slices.Equal(d.lost, []int{1}) {
		t.Errorf("lost %v", d.lost)
	}
}

func TestDo_ReportsLoneCallLostOnCancel(t *testing.T) {
	d := newHeldCombiner()
	ctx, cancel := context.WithCancel(t.Context())
	release, replies := d.queueBehind(ctx, t)
	cancel()
	release()
	if r := <-replies; !errors.Is(r.err, context.Canceled) {
		t.Errorf("got %+v", r)
	}
	if !slices.Equal(d.lost, []int{0}) {
		t.Errorf("lost %v", d.lost)
	}
}

func TestDo_InvalidCallFailsAlone(t *testing.T) {
	poison := errors.New("poison")
	for name, fail := range map[string]func() error{
		"error": func() error { return poison },
		"panic": func() error { panic(poison) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newHeldCombiner()
			d.fail = func(batch []int) error {
				if slices.Contains(batch, 4) {
					return fail()
				}
				return nil
			}
			release, replies := d.queueBehind(t.Context(), t, 1, 2, 3, 4, 5, 6, 7)
			release()
			for range 8 {
				if r := <-replies; (r.q == 4) != (r.err != nil) || r.err == nil && r.answer != 2*r.q {
					t.Errorf("got %+v", r)
				}
			}
			var done []int // of batches that did not fail
			for _, batch := range d.batches {
				if !slices.Contains(batch, 4) {
					done = append(done, batch...)
				}
			}
			if !slices.Equal(done, []int{0, 1, 2, 3, 5, 6, 7}) {
				t.Errorf("done in the order %v", done)
			}
			if answer, err := d.Do(t.Context(), d.org, 8); err != nil || answer != 16 {
				t.Errorf("next call: %d, %v", answer, err)
			}
		})
	}
}

func TestDo_RetriesBatchOnceAfterLostConnection(t *testing.T) {
	gone, silent := &pq.Error{Code: pqerror.AdminShutdown}, &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	for name, test := range map[string]struct {
		err               error
		failures, batches int
		fails             bool
	}{
		"once":              {gone, 1, 3, false},
		"always":            {gone, 9, 3, true},
		"silence":           {silent, 1, 3, false},
		"no answer, always": {silent, 9, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newHeldCombiner()
			d.fail = func(batch []int) error {
				if test.failures--; batch[0] != 0 && test.failures >= 0 {
					return test.err
				}
				return nil
			}
			test.failures++ // counts the first call, which succeeds
			release, replies := d.queueBehind(t.Context(), t, 1, 2, 3)
			release()
			for range 4 {
				if r := <-replies; (r.err != nil) != (test.fails && r.q > 0) {
					t.Errorf("got %+v", r)
				}
			}
			if len(d.batches) != test.batches {
				t.Errorf("batches: %v", d.batches)
			}
		})
	}
}

// An error that no single call causes is not retried per call.
func TestDo_LockTimeoutFailsBatchWithoutRetry(t *testing.T) {
	for _, err := range []error{&pq.Error{Code: pqerror.LockNotAvailable}, &pq.Error{Code: pqerror.QueryCanceled}, context.DeadlineExceeded} {
		d := newHeldCombiner()
		d.fail = func(batch []int) error {
			if batch[0] != 0 {
				return err
			}
			return nil
		}
		release, replies := d.queueBehind(t.Context(), t, 1, 2, 3)
		release()
		for range 4 {
			if r := <-replies; (r.err != nil) != (r.q > 0) {
				t.Errorf("got %+v", r)
			}
		}
		if len(d.batches) != 2 || len(d.lost) != 3 {
			t.Errorf("batches %v, lost %v", d.batches, d.lost)
		}
	}
}

func TestClose_AnswersQueuedCallsAndRefusesNewOnes(t *testing.T) {
	d := newHeldCombiner()
	release, replies := d.queueBehind(t.Context(), t, 1, 2)
	closed := make(chan struct{})
	go func() {
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
		close(closed)
	}()
	await(t, func() bool {
		d.Combiner.mu.Lock()
		defer d.Combiner.mu.Unlock()
		return d.closed
	})
	if _, err := d.Do(t.Context(), d.org, 9); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
	select {
	case <-closed:
		t.Error("Close returned while a call was in progress")
	default:
	}
	release()
	for range 3 {
		if r := <-replies; r.err != nil {
			t.Error(r.err)
		}
	}
	<-closed
}

func TestClose_StopsWaitingWhenContextEnds(t *testing.T) {
	d := newHeldCombiner()
	release, replies := d.queueBehind(t.Context(), t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- d.Close(ctx) }()
	select {
	case err := <-closed:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("Close waits longer than its context")
	}
	release()
	for range 2 {
		if r := <-replies; r.err != nil {
			t.Error(r.err)
		}
	}
}

func TestLookup_DeduplicatesAndAnswersAll(t *testing.T) {
	var questions []int
	answers, err := Lookup([]int{3, 1, 3, 7, 1}, func(distinct []int) (map[int]string, error) {
		questions = distinct
		return map[int]string{1: "one", 3: "three"}, nil
	})
	if diff := cmp.Diff([]int{3, 1, 7}, questions); diff != "" || err != nil {
		t.Errorf("%v; asked: %s", err, diff)
	}
	if diff := cmp.Diff([]string{"three", "one", "three", "", "one"}, answers); diff != "" {
		t.Error(diff)
	}
}

func TestLookup_FailureFailsAll(t *testing.T) {
	broken := errors.New("broken")
	answers, err := Lookup([]int{1}, func([]int) (map[int]string, error) { return nil, broken })
	if answers != nil || !errors.Is(err, broken) {
		t.Errorf("got %v, %v", answers, err)
	}
}
