package report_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/testenv"
)

// TestJournal_SyncsBeforeReturning checks the contents of the journal at each sync:
// first the complete file under its temporary name, then the final name.
func TestJournal_SyncsBeforeReturning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		var synced []string
		r.OnSync(func(file *os.File) error {
			held := journalFiles(t, r.dir)
			if info, err := file.Stat(); err != nil || len(held) != 1 || !info.IsDir() && info.Size() < 100 {
				t.Errorf("synced %s, among %v: %v", file.Name(), held, err)
			}
			synced = append(synced, filepath.Base(file.Name()), filepath.Base(held[0]))
			return file.Sync()
		})
		s := r.addSession()
		r.endSession(s)
		name := s.ID.String() + ".json"
		if want := []string{name + ".new", name + ".new", filepath.Base(r.dir), name}; !slices.Equal(synced, want) {
			t.Errorf("got syncs and contents %q, want %q", synced, want)
		}

		r.OnSync(func(*os.File) error { return errors.New("disk failure") })
		unsafe := r.addSession()
		r.endSession(unsafe)
		if _, err := os.Stat(filepath.Join(r.dir, unsafe.ID.String()+".json")); err == nil || !strings.Contains(r.log.String(), "disk failure") {
			t.Errorf("a report whose sync failed counts as written: %v, %s", err, r.log)
		}
	})
}

// TestJournal_SyncsWithoutLock writes each kind of file: a start, its end, what is left
// of the entry when its start is delivered, and two refused reports.
func TestJournal_SyncsWithoutLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		var synced []string
		r.OnSync(func(file *os.File) error {
			synced = append(synced, filepath.Base(file.Name()))
			if r.IsLocked() {
				t.Errorf("authorize requests wait for the sync of %s", file.Name())
			}
			return file.Sync()
		})
		r.cloud.down = true
		s := r.startSession(t)
		r.endSession(s)
		r.cloud.down, r.cloud.fails[s.ID] = false, fault.New(fault.Conflict, "never")
		r.Flush(t.Context())
		dir, name := filepath.Base(r.dir), s.ID.String()
		want := []string{name + ".json.new", dir, name + ".json.new", dir, name + "-start.json.rejected", name + ".json.new", dir, name + "-end.json.rejected"}
		if !slices.Equal(synced, want) {
			t.Errorf("synced\n%q\nwant\n%q", synced, want)
		}
	})
}

// An end is pending although the disk is busy with that of another session. The end of a
// caller's session, which is not written, does not wait for the disk at all.
func TestUnacknowledged_IncludesEndWhileDiskIsBusy(t *testing.T) {
	r := newFixture(t, t.TempDir())
	writing, release := make(chan struct{}, 100), make(chan struct{})
	r.OnSync(func(*os.File) error { writing <- struct{}{}; <-release; return nil })
	first, second, callers := r.addSession(), r.addSession(), r.startSessionWithKey(t, keyA)
	var ends sync.WaitGroup
	ends.Go(func() { r.endSession(first) })
	<-writing
	ends.Go(func() { r.endSession(second) })
	testenv.Eventually(t, "the second end is pending", func() bool { return len(r.Unacknowledged(ownKey)) == 2 })
	r.endSession(callers)
	close(release)
	ends.Wait()
	if left := journalFiles(t, r.dir); len(left) != 2 {
		t.Errorf("the journal contains %v", left)
	}
}
