package profiledata_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/data/profiledata"
)

func TestRollback_MakesVersionCurrentAndKeepsNewer(t *testing.T) {
	r := newFixture(t)
	for i := 1; i <= 3; i++ {
		r.save(t, sampleTree(i))
	}
	source, now, err := r.Rollback(t.Context(), profileID, 0)
	if err != nil || source.Number != 2 || now.Number != 4 {
		t.Fatalf("rolled back from %d to %d, %v", source.Number, now.Number, err)
	}
	assertTree(t, r.restored(t), sampleTree(2))
	if _, now, err = r.Rollback(t.Context(), profileID, 1); err != nil || now.Number != 5 {
		t.Fatalf("now %d, %v", now.Number, err)
	}
	assertTree(t, r.restored(t), sampleTree(1))
	if got := r.numbers(t); !slices.Equal(got, []int{5, 4, 3}) {
		t.Errorf("got versions %v", got)
	}
	r.save(t, sampleTree(6))
	if got := r.numbers(t); !slices.Equal(got, []int{6, 5, 4}) {
		t.Errorf("got versions %v", got)
	}
	for version, want := range map[int]string{6: "is the current one", 9: "there is no version 9"} {
		if _, _, err := r.Rollback(t.Context(), profileID, version); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("rollback to %d: %v", version, err)
		}
	}
	corruptFile(t, r.manifest(5), 10)
	if _, _, err := r.Rollback(t.Context(), profileID, 5); err == nil || !strings.Contains(err.Error(), "version 5 cannot be used") {
		t.Errorf("rollback to a damaged version: %v", err)
	}
	assertTree(t, r.restored(t), sampleTree(6))
}

func TestRemove_RemovesOneProfile(t *testing.T) {
	r := newFixture(t)
	r.save(t, sampleTree(1))
	other := uuid.New()
	c, err := r.Acquire(other)
	if err != nil {
		t.Fatal(err)
	}
	c.Release()
	if err := r.Remove(profileID); err != nil {
		t.Fatal(err)
	}
	if found, err := r.Profiles(t.Context()); err != nil || len(found) != 1 || found[0].ID != other {
		t.Errorf("got %v, %v", found, err)
	}
	for what, err := range map[string]error{"remove": r.Remove(profileID), "versions": second(r.Versions(t.Context(), profileID)), "rollback": third(r.Rollback(t.Context(), profileID, 0))} {
		if !errors.Is(err, profiledata.ErrNotFound) {
			t.Errorf("%s of a removed profile: %v", what, err)
		}
	}
	if _, err := os.Stat(r.dir); err == nil {
		t.Error("a read created the directory again")
	}
	assertTree(t, r.restored(t), tree{})
}

func second[A any](_ A, err error) error        { return err }
func third[A, B any](_ A, _ B, err error) error { return err }

func TestProfiles_ListsVersions(t *testing.T) {
	r := newFixture(t)
	r.save(t, sampleTree(1))
	r.save(t, sampleTree(2))
	corruptFile(t, r.manifest(2), -1)
	found, err := r.Profiles(t.Context())
	if err != nil || len(found) != 1 || found[0].ID != profileID || len(found[0].Versions) != 2 {
		t.Fatalf("found %+v, %v", found, err)
	}
	newest, before := found[0].Versions[0], found[0].Versions[1]
	if newest.Number != 2 || newest.Err == nil || before.Number != 1 || before.Err != nil {
		t.Errorf("found %+v", found)
	}
	if before.Content != 27 || before.Entries != 8 || time.Since(before.SavedAt) > time.Minute || before.Size < 100 {
		t.Errorf("got version 1 %+v", before)
	}
	if err := r.Verify(t.Context(), profileID, before); err != nil {
		t.Error(err)
	}
	if err := r.Verify(t.Context(), profileID, newest); err == nil {
		t.Error("Verify returned no error for a damaged version")
	}
}

func TestOpen_RemovesLeftoversOfRemovedProfiles(t *testing.T) {
	r := newFixture(t)
	left := filepath.Join(r.opts.Dir, ".removed-x", "deep")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := profiledata.OpenLocal(r.opts); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(left)); err == nil {
		t.Error("the leftover directory still exists")
	}
}
