package combine

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
)

// newSharedPair returns two Combiners with the same Scheduler and key.
func newSharedPair() (a, b *heldCombiner) {
	a, b = newHeldCombiner(), newHeldCombiner()
	b.org, b.opts.Scheduler = a.org, a.opts.Scheduler
	return a, b
}

func TestScheduler_RunsOneBatchPerKeyAtATime(t *testing.T) {
	a, b := newSharedPair()
	release, replies := a.queueBehind(t.Context(), t)
	answers := make(chan reply, 3)
	for q := range 3 {
		go func() {
			answer, err := b.Do(t.Context(), b.org, q)
			answers <- reply{q, answer, err}
		}()
	}
	b.awaitWaiting(t, 3) // the first call does not run yet, but the others join its batch
	if answer, err := b.Do(t.Context(), uuid.Must(uuid.NewV7()), 5); err != nil || answer != 10 {
		t.Errorf("another key: %d, %v", answer, err)
	}
	release()
	<-replies
	for range 3 {
		if r := <-answers; r.err != nil || r.answer != 2*r.q {
			t.Errorf("got %+v", r)
		}
	}
	b.Wait()
	if len(b.batches) != 2 || len(b.batches[1]) != 3 {
		t.Errorf("batches: %v", b.batches)
	}
	if left := len(a.opts.Scheduler.locks); left != 0 {
		t.Errorf("the idle scheduler still has %d keys", left)
	}
}

func TestScheduler_WaitingCallCanBeCancelled(t *testing.T) {
	a, b := newSharedPair()
	release, replies := a.queueBehind(t.Context(), t)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := b.Do(ctx, b.org, 1)
		left <- err
	}()
	b.awaitWaiting(t, 1)
	cancel()
	if err := <-left; err == nil {
		t.Error("the cancelled call was answered")
	}
	release()
	<-replies
	b.Wait()
	if len(b.batches) != 0 || len(a.opts.Scheduler.locks) != 0 {
		t.Errorf("batches %v, %d keys", b.batches, len(a.opts.Scheduler.locks))
	}
}

// Of the callers that call again as soon as they are answered, only the last may miss
// the next batch.
func TestScheduler_AnsweredCallersJoinNextBatch(t *testing.T) {
	const callers = 64
	a, b := newSharedPair()
	release, replies := a.queueBehind(t.Context(), t)
	done := make(chan error, callers+1)
	for q := range callers {
		go func() {
			_, err := a.Do(t.Context(), a.org, q)
			for answered := time.Now(); time.Since(answered) < 50*time.Microsecond; { // the calls run one after the other
			}
			if err == nil {
				_, err = b.Do(t.Context(), b.org, q)
			}
			done <- err
		}()
	}
	a.awaitWaiting(t, callers)
	a.held <- struct{}{} // releases the first batch
	<-a.began            // the others are in progress
	go func() {
		_, err := b.Do(t.Context(), b.org, callers)
		done <- err
	}()
	b.awaitWaiting(t, 1)
	release()
	<-replies
	for range callers + 1 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if went := len(b.batches[0]) - 1; went < callers/2 {
		t.Errorf("of %d callers that were answered together, %d joined the next batch", callers, went)
	}
}
