package profiledata_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/data/profiledata"
)

// allAges is a minimum age that every object has, and with which no version is pending.
const allAges = -profiledata.PendingTime - time.Hour

// index is the cloud's index for a garbage collection.
type index struct{ r *remoteFixture }

func (i index) Deleted(context.Context, string) (bool, error) { return false, nil }

func (i index) Key(_ context.Context, id uuid.UUID) ([]byte, error) {
	if id != profileID {
		return nil, fault.Missing("profile")
	}
	return i.r.key, nil
}

func (i index) Versions(_ context.Context, id uuid.UUID) (ids []uuid.UUID, err error) {
	if id != profileID {
		return nil, fault.Missing("profile")
	}
	for _, v := range i.r.versions {
		ids = append(ids, v.ID)
	}
	return ids, nil
}

func TestCollectGarbage_DeletesOldUnusedObjectsOnly(t *testing.T) {
	r := newRemote(t)
	r.save(t, large(1))
	r.save(t, large(2))
	other := uuid.New() // a profile that the cloud has deleted
	foreign := &remoteFixture{Store: r.Store, key: bytes.Repeat([]byte{2}, 32), dir: r.dir, log: r.log}
	for _, each := range []*remoteFixture{{Store: r.Store, key: r.key}, foreign} {
		use := each.use()
		use.ProfileID = other
		h := each.handle(t, use)
		if err := errors.Join(h.Restore(t.Context(), emptyRoot(t)), h.Save(t.Context(), sampleTree(1).write(t))); err != nil {
			t.Fatal(err)
		}
	}
	r.versions = r.versions[1:]
	before := len(r.objects(t)) + 1 // the time of the collection
	if done, err := r.CollectGarbage(t.Context(), index{r}, profiledata.MinGarbageAge); err != nil || done.Objects != 0 || done.Profiles != 2 {
		t.Errorf("young objects: %+v, %v", done, err)
	}
	r.clock.Advance(1000 * time.Hour) // a wrong clock of the worker deletes nothing
	if done, err := r.CollectGarbage(t.Context(), index{r}, profiledata.MinGarbageAge); err != nil || done.Objects != 0 {
		t.Errorf("with a wrong clock: %+v, %v", done, err)
	}
	done, err := r.CollectGarbage(t.Context(), index{r}, allAges)
	if err != nil || done.Objects < 4 || done.Bytes == 0 || len(r.objects(t)) != before-done.Objects {
		t.Errorf("got %+v, %v", done, err)
	}
	assertTree(t, r.restored(t), large(2))
	use := foreign.use()
	use.ProfileID = other
	root := emptyRoot(t)
	if err := foreign.handle(t, use).Restore(t.Context(), root); err != nil {
		t.Errorf("the data of another organization: %v", err)
	}
	assertTree(t, read(t, root), sampleTree(1))
}

// savePending saves a version while the cloud does not answer.
func (r *remoteFixture) savePending(t *testing.T, data tree) (saved profiledata.SavedVersion) {
	t.Helper()
	use := r.use()
	use.Commit = func(_ context.Context, v profiledata.SavedVersion) error {
		saved = v
		return profiledata.ErrPending
	}
	h := r.handle(t, use)
	err := errors.Join(h.Restore(t.Context(), emptyRoot(t)), h.Save(t.Context(), data.write(t)))
	if !errors.Is(err, profiledata.ErrPending) {
		t.Fatal(err)
	}
	return saved
}

func TestCollectGarbage_KeepsPendingVersion(t *testing.T) {
	r := newRemote(t)
	r.save(t, large(1))
	saved := r.savePending(t, large(2))
	collect := func(minAge time.Duration, want int) {
		t.Helper()
		if done, err := r.CollectGarbage(t.Context(), index{r}, minAge); err != nil || done.Objects != want {
			t.Errorf("got %+v, %v, want %d objects", done, err, want)
		}
	}
	collect(-time.Hour, 0)
	r.versions = append(r.versions, saved)
	collect(-time.Hour, 1) // what marks it as pending
	assertTree(t, r.restored(t), large(2))
}

func TestCollectGarbage_DeletesExpiredPendingVersion(t *testing.T) {
	r := newRemote(t)
	r.save(t, large(1))
	before := len(r.objects(t))
	r.savePending(t, large(2))
	if _, err := r.CollectGarbage(t.Context(), index{r}, allAges); err != nil {
		t.Error(err)
	}
	if left := len(r.objects(t)); left != before+1 { // and the time of the collection
		t.Errorf("%d objects are left, want %d", left, before+1)
	}
}
