package profiledata_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/data/profiledata"
)

func TestAcquire_ConflictsWhileInUse(t *testing.T) {
	r := newFixture(t)
	c := r.claim(t)
	other, err := profiledata.OpenLocal(r.opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range []*profiledata.Local{r.Local, other} {
		if _, err := store.Acquire(profileID); !fault.Is(err, fault.Conflict) {
			t.Errorf("second Acquire: %v", err)
		}
		if err := store.Remove(profileID); !errors.Is(err, profiledata.ErrInUse) {
			t.Errorf("remove: %v", err)
		}
		if _, _, err := store.Rollback(t.Context(), profileID, 0); !errors.Is(err, profiledata.ErrInUse) {
			t.Errorf("rollback: %v", err)
		}
	}
	if beside, err := r.Acquire(uuid.New()); err != nil {
		t.Errorf("another profile: %v", err)
	} else {
		beside.Release()
	}
	restore(t, c)
	c.Release()
	c.Release()
	if err := c.Save(t.Context(), sampleTree(1).write(t)); err == nil {
		t.Error("saved after Release")
	}
	if err := c.Restore(t.Context(), emptyRoot(t)); err == nil {
		t.Error("restored after Release")
	}
	again, err := other.Acquire(profileID)
	if err != nil {
		t.Fatal(err)
	}
	again.Release()
}

func TestHandle_EndedContextChangesNothing(t *testing.T) {
	r := newFixture(t)
	r.save(t, sampleTree(1))
	r.save(t, sampleTree(2))
	// The context ends at its nth check, for every n.
	for _, what := range []string{"restore", "save"} {
		for n, over := 1, false; !over; n++ {
			c := r.claim(t)
			ctx := &contextEndingAfter{Context: t.Context(), left: n}
			root := emptyRoot(t)
			var err error
			if what == "restore" {
				err = c.Restore(ctx, root)
			} else {
				restore(t, c)
				err = c.Save(ctx, sampleTree(3).write(t))
			}
			c.Release()
			if over = ctx.left > 0; over {
				if err != nil || n < 4 {
					t.Errorf("%s: after %d checks: %v", what, n, err)
				}
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("%s: at check %d: %v", what, n, err)
			}
			if what == "restore" {
				assertTree(t, read(t, root), tree{})
			}
			assertTree(t, r.restored(t), sampleTree(2))
		}
	}
	assertTree(t, r.restored(t), sampleTree(3))
}

// contextEndingAfter is a context that ends at its nth check.
type contextEndingAfter struct {
	context.Context
	left int
}

func (d *contextEndingAfter) Err() error {
	if d.left--; d.left <= 0 {
		return context.Canceled
	}
	return nil
}

func TestRelease_WaitsForOperationInProgress(t *testing.T) {
	r := newFixture(t)
	c := r.claim(t)
	restore(t, c)
	entered, leave := make(chan struct{}), make(chan struct{})
	ctx := &blockingContext{Context: t.Context(), entered: entered, leave: leave}
	saved := make(chan error, 1)
	root := sampleTree(1).write(t)
	go func() { saved <- c.Save(ctx, root) }()
	<-entered
	released := make(chan struct{})
	go func() { c.Release(); close(released) }()
	if _, err := r.Acquire(profileID); !fault.Is(err, fault.Conflict) {
		t.Errorf("acquired during a save: %v", err)
	}
	select {
	case <-released:
		t.Error("released during a save")
	case <-time.After(50 * time.Millisecond):
	}
	close(leave)
	if err := <-saved; err != nil {
		t.Error(err)
	}
	<-released
	assertTree(t, r.restored(t), sampleTree(1))
}

// TestSave_TimeoutBeginsAfterQueueing queues a save behind two slow ones.
func TestSave_TimeoutBeginsAfterQueueing(t *testing.T) {
	const bound = 500 * time.Millisecond
	r := newFixture(t, func(o *profiledata.LocalOptions) { o.SaveTime = bound })
	claimed := func() *profiledata.LocalHandle {
		c, err := r.Acquire(uuid.New())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Release)
		restore(t, c)
		return c
	}
	root, leave := sampleTree(1).write(t), make(chan struct{})
	c := claimed()
	var before sync.WaitGroup
	for range 2 {
		other := claimed()
		if err := other.Save(t.Context(), root); err != nil {
			t.Fatal(err)
		}
		ctx := &blockingContext{Context: t.Context(), entered: make(chan struct{}), leave: leave}
		into := emptyRoot(t)
		before.Go(func() {
			if err := other.Restore(ctx, into); err != nil {
				t.Error(err)
			}
		})
		<-ctx.entered
	}
	time.AfterFunc(2*bound, func() { close(leave) })
	if err := c.Save(t.Context(), root); err != nil {
		t.Error(err)
	}
	before.Wait()
}

// blockingContext is a context whose first check blocks.
type blockingContext struct {
	context.Context
	entered, leave chan struct{}
	looked         bool
}

func (h *blockingContext) Err() error {
	if !h.looked {
		h.looked = true
		close(h.entered)
		<-h.leave
	}
	return nil
}
