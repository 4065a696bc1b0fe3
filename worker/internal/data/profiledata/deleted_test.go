package profiledata_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/profilekey"
	"github.com/browser-svc/svc/worker/internal/data/profiledata"
)

// deletedIndex calls one directory deleted.
type deletedIndex struct {
	index
	directory string
	err       error
}

func (i deletedIndex) Deleted(_ context.Context, directory string) (bool, error) {
	return directory == i.directory, i.err
}

// TestCollectDeleted_DeletesOneOrganization saves data of two organizations and deletes one
// of them.
func TestCollectDeleted_DeletesOneOrganization(t *testing.T) {
	_, bucket := startS3(t)
	r := newRemote(t, bucket)
	r.save(t, large(1))
	gone := &remoteFixture{Store: r.Store, key: bytes.Repeat([]byte{2}, 32), log: r.log}
	h := gone.handle(t, gone.use())
	if err := errors.Join(h.Restore(t.Context(), emptyRoot(t)), h.Save(t.Context(), sampleTree(1).write(t))); err != nil {
		t.Fatal(err)
	}
	directory, err := profilekey.Directory(gone.key)
	if err != nil {
		t.Fatal(err)
	}
	count := func() (inDirectory, others int) {
		for all := bucket.List(nil); ; {
			object, err := all.Next(t.Context())
			if err != nil {
				return inDirectory, others
			}
			if strings.HasPrefix(object.Key, directory+"/") {
				inDirectory++
			} else {
				others++
			}
		}
	}
	saved, others := count()
	for name, tc := range map[string]struct {
		index  deletedIndex
		minAge time.Duration
	}{
		"nothing is deleted":        {deletedIndex{index{r}, "", nil}, allAges},
		"the cloud does not answer": {deletedIndex{index{r}, directory, errors.New("no answer")}, allAges},
		"young objects":             {deletedIndex{index{r}, directory, nil}, profiledata.MinGarbageAge},
	} {
		done, err := r.CollectDeleted(t.Context(), tc.index, tc.minAge)
		left, foreign := count()
		if (err != nil) != (tc.index.err != nil) || done.Objects != 0 || left < saved || foreign != others {
			t.Errorf("%s: %+v, %v, %d of %d and %d of %d left", name, done, err, left, saved, foreign, others)
		}
	}
	done, err := r.CollectDeleted(t.Context(), deletedIndex{index{r}, directory, nil}, allAges)
	if left, foreign := count(); err != nil || done.Objects != saved || done.Bytes == 0 || left != 0 || foreign != others {
		t.Errorf("%+v, %v: %d and %d of %d left", done, err, left, foreign, others)
	}
	assertTree(t, r.restored(t), large(1))
}

// TestCollector_DeletesOwnDeletedOrganization runs the collector of a worker whose own
// organization was deleted, so that the cloud refuses its key.
func TestCollector_DeletesOwnDeletedOrganization(t *testing.T) {
	r := newRemote(t)
	r.save(t, large(1))
	directory, err := profilekey.Directory(r.key)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range r.objects(t) {
		if err := os.Chtimes(path, longAgo, longAgo); err != nil {
			t.Fatal(err)
		}
	}
	note := filepath.Join(r.dir, "notes.txt") // not of profile data
	if err := os.WriteFile(note, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	failing, _ := r.collector(deletedIndex{index{r}, directory, errors.New("the cloud does not answer")})
	failing.CollectIfDue(t.Context())
	assertTree(t, r.restored(t), large(1))
	c, _ := r.collector(deletedIndex{index{r}, directory, nil})
	c.CollectIfDue(t.Context())
	if left := r.objects(t); len(left) > 1 || len(left) == 1 && left[0] != note {
		t.Errorf("left: %v", left)
	}
	if !strings.Contains(r.log.String(), "profile data of deleted organizations deleted") {
		t.Errorf("got log\n%s", r.log)
	}
}
