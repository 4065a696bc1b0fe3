package report_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// TestJournal_SyncsBeforeReturning looks at what the journal holds whenever
// it asks for the disk: first at a whole file that does not have its name yet,
// then at the name.
func TestJournal_SyncsBeforeReturning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		var seen []string
		r.OnSync(func(file *os.File) error {
			held := journalFiles(t, r.dir)
			if info, err := file.Stat(); err != nil || len(held) != 1 || !info.IsDir() && info.Size() < 100 {
				t.Errorf("%s, among %v: %v", file.Name(), held, err)
			}
			seen = append(seen, filepath.Base(file.Name()), filepath.Base(held[0]))
			return file.Sync()
		})
		s := r.addSession()
		r.endSession(s)
		name := s.ID.String() + ".json"
		if want := []string{name + ".new", name + ".new", filepath.Base(r.dir), name}; !slices.Equal(seen, want) {
			t.Errorf("it brings to the disk, and holds then, %q, want %q", seen, want)
		}

		r.OnSync(func(*os.File) error { return errors.New("the disk is gone") })
		unsafe := r.addSession()
		r.endSession(unsafe)
		if _, err := os.Stat(filepath.Join(r.dir, unsafe.ID.String()+".json")); err == nil || !strings.Contains(r.log.String(), "the disk is gone") {
			t.Errorf("a report that may not be on the disk counts as one that is: %v, %s", err, r.log)
		}
	})
}
