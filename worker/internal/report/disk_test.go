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

// TestJournal_SyncsBeforeReturning checks the contents of the journal at each sync:
// first the complete file under its temporary name, then the final name.
func TestJournal_SyncsBeforeReturning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		var seen []string
		r.OnSync(func(file *os.File) error {
			held := journalFiles(t, r.dir)
			if info, err := file.Stat(); err != nil || len(held) != 1 || !info.IsDir() && info.Size() < 100 {
				t.Errorf("synced %s, among %v: %v", file.Name(), held, err)
			}
			seen = append(seen, filepath.Base(file.Name()), filepath.Base(held[0]))
			return file.Sync()
		})
		s := r.addSession()
		r.endSession(s)
		name := s.ID.String() + ".json"
		if want := []string{name + ".new", name + ".new", filepath.Base(r.dir), name}; !slices.Equal(seen, want) {
			t.Errorf("got syncs and contents %q, want %q", seen, want)
		}

		r.OnSync(func(*os.File) error { return errors.New("disk failure") })
		unsafe := r.addSession()
		r.endSession(unsafe)
		if _, err := os.Stat(filepath.Join(r.dir, unsafe.ID.String()+".json")); err == nil || !strings.Contains(r.log.String(), "disk failure") {
			t.Errorf("a report whose sync failed counts as written: %v, %s", err, r.log)
		}
	})
}
