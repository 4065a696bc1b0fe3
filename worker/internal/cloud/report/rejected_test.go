package report_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

func TestJournal_SetsRefusedReportsAside(t *testing.T) {
	for _, kind := range []fault.Kind{fault.Validation, fault.NotFound, fault.Conflict} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			r := newFixture(t, dir)
			bad, good := r.addSession(), r.addSession()
			r.cloud.fails[bad.ID] = fault.New(kind, "never")
			r.run(t)
			r.endSession(bad)
			r.endSession(good)
			time.Sleep(time.Minute)
			r.stop()
			assertDelivered(t, r.cloud.accepted(), endCall(good))
			aside := filepath.Join(dir, bad.ID.String()+"-end.json.rejected")
			if left := journalFiles(t, dir); len(left) != 1 || left[0] != aside {
				t.Fatalf("the journal contains %v, want %s", left, aside)
			}
			if text, err := os.ReadFile(aside); err != nil || !strings.Contains(string(text), bad.ProfileID.String()) {
				t.Errorf("the file contains %s, %v", text, err)
			}
			if !strings.Contains(r.log.String(), "the cloud refused an end") {
				t.Errorf("got log %s", r.log)
			}
			if waiting, rejected := r.Counts(); waiting != 0 || rejected != 1 {
				t.Errorf("got %d pending, %d rejected", waiting, rejected)
			}

			after := newFixture(t, dir) // the report is still counted and not sent again
			after.run(t)
			after.stop()
			if waiting, rejected := after.Counts(); waiting != 0 || rejected != 1 || len(after.cloud.attempted()) != 0 {
				t.Errorf("the next boot: got %d pending, %d rejected, it tried %v", waiting, rejected, describe(after.cloud.attempted()))
			}
		})
	}
}

func TestJournal_DropsRefusedEndOfFailedLaunch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		failed := launch.Ended{SessionID: uuid.New(), ProfileID: uuid.New(), Status: session.Killed, Reason: session.Unknown, At: time.Now()}
		r.cloud.fails[failed.SessionID] = fault.New(fault.NotFound, "unknown session")
		r.run(t)
		defer r.stop()
		r.Ended(failed)
		time.Sleep(time.Minute)
		if left := journalFiles(t, r.dir); len(left) > 0 {
			t.Errorf("the journal contains %v", left)
		}
		if _, rejected := r.Counts(); rejected != 0 {
			t.Errorf("got %d rejected", rejected)
		}
	})
}

func TestJournal_RejectsReportOfAnotherSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		before := newFixture(t, dir)
		before.endSession(before.addSession())
		name := journalFiles(t, dir)[0]
		moved := filepath.Join(dir, uuid.NewString()+".json")
		if err := os.Rename(name, moved); err != nil {
			t.Fatal(err)
		}
		r := newFixture(t, dir)
		r.run(t)
		r.stop()
		if tried := r.cloud.attempted(); len(tried) > 0 {
			t.Errorf("got reports %v", describe(tried))
		}
		if left := journalFiles(t, dir); len(left) != 1 || left[0] != moved+".rejected" {
			t.Errorf("the journal contains %v", left)
		}
	})
}

// TestJournal_LoadsFromDirectoryWithPatternCharacters uses a directory whose name
// is a pattern of filepath.Glob.
func TestJournal_LoadsFromDirectoryWithPatternCharacters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "worker[1]*")
		before := newFixture(t, dir)
		ended := before.addSession()
		before.endSession(ended)
		r := newFixture(t, dir)
		r.run(t)
		defer r.stop()
		assertDelivered(t, r.cloud.accepted(), endCall(ended))
	})
}

func TestJournal_RemovesPartialFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, t.TempDir())
		r.OnSync(func(*os.File) error { return os.ErrInvalid })
		r.endSession(r.addSession())
		if left := journalFiles(t, r.dir); len(left) > 0 {
			t.Errorf("the journal contains %v", left)
		}
	})
}
