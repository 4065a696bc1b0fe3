package profiledata_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"gocloud.dev/blob"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/data/profiledata"
)

// remoteFixture is a store of two workers and the versions that the cloud would have.
type remoteFixture struct {
	*profiledata.Store
	dir      string
	log      *testenv.Log
	key      []byte
	versions []profiledata.SavedVersion // the current one last
	clock    *clock.Fake
}

// newRemote returns a store in a directory, or in a bucket.
func newRemote(t *testing.T, other ...*blob.Bucket) *remoteFixture {
	t.Helper()
	r := &remoteFixture{dir: t.TempDir(), log: &testenv.Log{}, key: bytes.Repeat([]byte{1}, 32), clock: clock.NewFake(time.Now())}
	bucket, err := profiledata.OpenBucket(t.Context(), "file://"+r.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bucket.Close() })
	if len(other) > 0 {
		bucket = other[0]
	}
	r.Store = profiledata.Open(profiledata.Options{
		Bucket: bucket, Versions: 3, MaxBytes: 64 << 20, Clock: r.clock, Logger: slog.New(slog.NewTextHandler(r.log, nil)),
	})
	return r
}

func (r *remoteFixture) current() *uuid.UUID {
	if len(r.versions) == 0 {
		return nil
	}
	return &r.versions[len(r.versions)-1].ID
}

func (r *remoteFixture) use() profiledata.Use {
	return profiledata.Use{ProfileID: profileID, Current: r.current(), Key: r.key, Commit: func(ctx context.Context, v profiledata.SavedVersion) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.versions = append(r.versions, v)
		return nil
	}}
}

func (r *remoteFixture) handle(t testing.TB, use profiledata.Use) *profiledata.Handle {
	t.Helper()
	h, err := r.Handle(use)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (r *remoteFixture) restored(t testing.TB) tree {
	t.Helper()
	root := emptyRoot(t)
	if err := r.handle(t, r.use()).Restore(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	return read(t, root)
}

func (r *remoteFixture) save(t *testing.T, data tree) {
	t.Helper()
	h := r.handle(t, r.use())
	if err := errors.Join(h.Restore(t.Context(), emptyRoot(t)), h.Save(t.Context(), data.write(t))); err != nil {
		t.Fatal(err)
	}
}

// objects returns the paths of all objects.
func (r *remoteFixture) objects(t *testing.T) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(r.dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func randomText(seed int64, size int) string {
	text := make([]byte, size)
	rand.New(rand.NewSource(seed)).Read(text)
	return string(text)
}

func TestRemote_RestoresWhatAnotherWorkerSaved(t *testing.T) {
	r := newRemote(t)
	assertTree(t, r.restored(t), tree{})
	for i := range 3 {
		r.save(t, sampleTree(i))
		assertTree(t, r.restored(t), sampleTree(i))
	}
	r.save(t, sampleTree(2)) // unchanged
	if len(r.versions) != 3 || r.versions[2].Content == 0 || r.versions[2].Keep != 3 {
		t.Errorf("got versions %+v", r.versions)
	}
	for _, path := range r.objects(t) {
		if raw, err := os.ReadFile(path); err != nil || bytes.Contains(raw, []byte("cookies of")) {
			t.Errorf("%s contains plain text, %v", path, err)
		}
	}
}

func TestRemote_SecondSaveSendsOnlyChanges(t *testing.T) {
	r := newRemote(t)
	data := tree{"Default": dir()}
	for i := range 30 {
		data[fmt.Sprintf("Default/f%02d", i)] = file(randomText(int64(i), 1<<20))
	}
	r.save(t, data)
	data["Default/f07"] = file(randomText(100, 1<<20))
	data["Default/f08a"] = file("new")
	r.save(t, data)
	first, second := r.versions[0].Sent, r.versions[1].Sent
	t.Logf("the first save sent %d bytes, the second %d", first, second)
	if first < 30<<20 || second > 4<<20 {
		t.Errorf("the first save sent %d bytes, the second %d", first, second)
	}
	assertTree(t, r.restored(t), data)
}

func TestRemote_ReadOnlySavesNothing(t *testing.T) {
	r := newRemote(t)
	r.save(t, sampleTree(1))
	before := len(r.objects(t))
	use := r.use()
	use.Commit = nil
	h := r.handle(t, use)
	if err := errors.Join(h.Restore(t.Context(), emptyRoot(t)), h.Save(t.Context(), sampleTree(2).write(t))); err != nil {
		t.Error(err)
	}
	if after := len(r.objects(t)); after != before {
		t.Errorf("%d objects became %d", before, after)
	}
}

func TestRemote_DamageIsReportedAndLosesNothing(t *testing.T) {
	r := newRemote(t)
	r.save(t, large(1))
	root := emptyRoot(t)
	fails := func(what string, use profiledata.Use) {
		t.Helper()
		h := r.handle(t, use)
		err := h.Restore(t.Context(), root)
		if !fault.Is(err, fault.Internal) || !strings.Contains(fault.From(err).Message, "damaged or encrypted with another key") {
			t.Errorf("%s: got %v", what, err)
		}
		if left := read(t, root); len(left) > 0 {
			t.Errorf("%s: left %d entries", what, len(left))
		}
		if err := h.Save(t.Context(), sampleTree(9).write(t)); err == nil {
			t.Errorf("%s: saved after a failed restore", what)
		}
	}
	for _, path := range r.objects(t) {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		flipped := bytes.Clone(whole)
		flipped[len(whole)/2] ^= 1
		for what, content := range map[string][]byte{"flipped": flipped, "cut": whole[:len(whole)/2], "empty": {}} {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			fails(what+" "+filepath.Base(path), r.use())
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		fails("removed "+filepath.Base(path), r.use())
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other := r.use()
	other.Key = bytes.Repeat([]byte{2}, 32)
	fails("another organization's key", other)
	assertTree(t, r.restored(t), large(1))
	if len(r.versions) != 1 {
		t.Errorf("got versions %v", r.versions)
	}
}

// cutContext ends at a given call of Err. It simulates the end of the process:
// operations that check the context later do not run.
type cutContext struct {
	context.Context
	cancel context.CancelFunc
	left   atomic.Int64
}

func (c *cutContext) Err() error {
	if c.left.Add(-1) <= 0 {
		c.cancel()
	}
	return c.Context.Err()
}

func TestRemote_CutSaveKeepsLastVersion(t *testing.T) {
	r, next := newRemote(t), large(2)
	for i := range 60 {
		next[fmt.Sprintf("Default/n%02d", i)] = file(randomText(int64(i), 30_000))
	}
	r.save(t, large(1))
	cut := func(limit int64) (checks int64) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := &cutContext{Context: ctx, cancel: cancel}
		c.left.Store(limit)
		h := r.handle(t, r.use())
		if err := h.Restore(t.Context(), emptyRoot(t)); err != nil {
			t.Fatal(err)
		}
		versions := len(r.versions)
		err := h.Save(c, next.write(t))
		if (err == nil) != (len(r.versions) == versions+1) {
			t.Errorf("cut at %d: %v with %d versions", limit, err, len(r.versions))
		}
		return limit - c.left.Load()
	}
	const points = 50
	checks := cut(1 << 40)
	r.versions = r.versions[:1]
	for n := range int64(points) {
		cut(1 + n*checks/points)
		if len(r.versions) > 1 {
			r.versions = r.versions[:1]
		}
		assertTree(t, r.restored(t), large(1))
	}
	if checks < points {
		t.Errorf("a save checks its context only %d times", checks)
	}
	t.Logf("%d points of %d checks", points, checks)
}
