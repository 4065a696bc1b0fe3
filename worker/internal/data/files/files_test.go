package files_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/worker/internal/data/files"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// newStore returns a store without its leftovers.
func newStore(t *testing.T, dir string, change ...func(*files.Options)) (*files.Store, *clock.Fake) {
	t.Helper()
	fake := clock.NewFake(start)
	o := files.Options{Dir: dir, Quota: 1 << 20, Retention: time.Hour, Clock: fake}
	for _, apply := range change {
		apply(&o)
	}
	s, err := files.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Load(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Wait)
	return s, fake
}

func create(t *testing.T, s *files.Store, id string) *files.Launch {
	t.Helper()
	l, err := s.Create(id, -1, "/svc/files")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// complete stores a download as a browser does.
func complete(t *testing.T, l *files.Launch, id, name, content string) {
	t.Helper()
	l.Began(id, "https://user:secret@example.com/path?token=secret", name)
	if err := os.WriteFile(filepath.Join(l.Shared(), "downloads", id), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	l.Completed(id, "/svc/files/downloads/"+id)
}

func TestList_ShowsNoSecretsOfURL(t *testing.T) {
	s, _ := newStore(t, t.TempDir())
	l := create(t, s, "one")
	for i, address := range []string{
		"https://user:secret@example.com:8443/secret?token=secret#secret", "blob:https://example.com/secret", "data:text/plain,secret", "file:///secret",
		"javascript:secret", "https://" + strings.Repeat("a", 400), "://", "filesystem:https://example.com/secret",
	} {
		id := fmt.Sprint(i)
		l.Began(id, address, "x")
		f, err := l.Get(id)
		want := map[int]string{0: "https://example.com:8443", 1: "https://example.com"}[i]
		if err != nil || f.Origin != want {
			t.Errorf("%s: the origin is %q, %v", address, f.Origin, err)
		}
	}
}

func TestClose_RemovesOrKeeps(t *testing.T) {
	dir := t.TempDir()
	s, _ := newStore(t, dir)
	kept, dropped := create(t, s, "kept"), create(t, s, "dropped")
	first, second := uuid.New(), uuid.New()
	if err := errors.Join(kept.Bind(first, true), dropped.Bind(second, false)); err != nil {
		t.Fatal(err)
	}
	complete(t, kept, "a", "a.txt", "content")
	complete(t, dropped, "a", "a.txt", "content")
	kept.Began("b", "", "b.txt")
	if err := errors.Join(kept.Close(), dropped.Close()); err != nil {
		t.Fatal(err)
	}
	s.Wait()
	if _, err := kept.Add("late", 1, strings.NewReader("x")); !errors.Is(err, files.ErrEnded) {
		t.Errorf("an upload after the end: %v", err)
	}
	again, fake := newStore(t, dir)
	launch, ok := again.BySession(first)
	if _, other := again.BySession(second); !ok || other {
		t.Fatalf("kept %t, dropped %t", ok, other)
	}
	content, f, err := launch.Open("a")
	if err != nil || f.SHA256 == "" || f.Name != "a.txt" || f.Origin != "https://example.com" {
		t.Fatalf("%+v %v", f, err)
	}
	text, _ := io.ReadAll(content)
	content.Close()
	if string(text) != "content" {
		t.Errorf("read %q", text)
	}
	if f, _ := launch.Get("b"); f.State != files.Failed {
		t.Errorf("an unfinished download is %s", f.State)
	}
	fake.Advance(time.Hour)
	if _, ok := again.BySession(first); ok {
		t.Error("expired files are found")
	}
	again.Sweep()
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// TestLoad_KeepsFilesOfKilledWorker loads what a worker left that was killed.
func TestLoad_KeepsFilesOfKilledWorker(t *testing.T) {
	dir := t.TempDir()
	s, _ := newStore(t, dir)
	l := create(t, s, "one")
	session := uuid.New()
	if err := l.Bind(session, true); err != nil {
		t.Fatal(err)
	}
	complete(t, l, "a", "a", "content")
	create(t, s, "other")
	s.Wait()
	again, _ := newStore(t, dir)
	launch, ok := again.BySession(session)
	if !ok || len(launch.List("")) != 1 {
		t.Fatal("the files are lost")
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left %v", left)
	}
}

func TestSweep_RemovesOldestOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	s, fake := newStore(t, dir)
	sessions := []uuid.UUID{uuid.New(), uuid.New()}
	for i, id := range sessions {
		l := create(t, s, fmt.Sprint(i))
		if err := errors.Join(l.Bind(id, true), l.Close()); err != nil {
			t.Fatal(err)
		}
		fake.Advance(time.Minute)
	}
	full, _ := newStore(t, dir, func(o *files.Options) { o.MinFree = 1 << 62 })
	for _, id := range sessions {
		if _, ok := full.BySession(id); ok {
			t.Error("files are kept on a full disk")
		}
	}
	if _, err := create(t, full, "new").Add("a", 1, strings.NewReader("x")); !errors.Is(err, files.ErrDiskFull) {
		t.Errorf("an upload on a full disk: %v", err)
	}
}

// TestQuota_CountsWhatBrowserWrites counts files other than downloads.
func TestQuota_CountsWhatBrowserWrites(t *testing.T) {
	s, fake := newStore(t, t.TempDir())
	l := create(t, s, "one")
	if _, err := l.Add("a", 500_000, strings.NewReader(strings.Repeat("x", 500_000))); err != nil {
		t.Fatal(err)
	}
	deep := filepath.Join(l.Shared(), "downloads", "a", "b")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(deep, "own"), make([]byte, 500_000), 0o600); err != nil {
		t.Fatal(err)
	}
	fake.Advance(time.Second)
	var quota *files.QuotaError
	if _, err := l.Add("b", 100_000, strings.NewReader(strings.Repeat("x", 100_000))); !errors.As(err, &quota) || quota.Limit != 1<<20 || quota.Used < 1_000_000 {
		t.Errorf("got %v", err)
	}
	if _, err := l.Add("b", -1, strings.NewReader(strings.Repeat("x", 100_000))); !errors.Is(err, files.ErrQuota) {
		t.Errorf("of unknown size: %v", err)
	}
	if len(l.List("")) != 1 {
		t.Error("a refused upload is listed")
	}
	canceled := make(chan string, 1)
	l.Connect(func(id string) { canceled <- id }, func(context.Context) {})
	l.Began("c", "", "c")
	l.Progressed("c", 0, 1000)
	if l.CheckQuota(); len(canceled) > 0 {
		t.Error("a download that fits was canceled")
	}
	l.Progressed("c", 1, 600_000)
	if broken := l.CheckQuota(); broken || <-canceled != "c" {
		t.Error("the download was not canceled")
	}
	if f, _ := l.Get("c"); f.State != files.QuotaExceeded {
		t.Errorf("the state is %s", f.State)
	}
	l.Completed("c", "")
	if f, _ := l.Get("c"); f.State != files.QuotaExceeded {
		t.Errorf("completed too late, the state is %s", f.State)
	}
}

// TestQuota_FollowsKnownFiles counts known files at once, but measures the directory at most
// once a second.
func TestQuota_FollowsKnownFiles(t *testing.T) {
	s, fake := newStore(t, t.TempDir())
	l := create(t, s, "one")
	assertState := func(id string, want files.State) {
		t.Helper()
		l.CheckQuota()
		if f, _ := l.Get(id); f.State != want {
			t.Errorf("%s is %s, want %s", id, f.State, want)
		}
	}
	l.Began("a", "", "a")
	assertState("a", files.InProgress)
	own := filepath.Join(l.Shared(), "downloads", "own")
	if err := os.WriteFile(own, make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	l.Progressed("a", 600_000, 0)
	assertState("a", files.InProgress)
	l.Began("b", "", "b")
	l.Progressed("b", 0, 500_000)
	assertState("b", files.QuotaExceeded)
	if _, err := l.Add("c", -1, strings.NewReader(strings.Repeat("x", 500_000))); !errors.Is(err, files.ErrQuota) {
		t.Errorf("an upload that does not fit: %v", err)
	}
	if _, err := l.Add("c", -1, strings.NewReader(strings.Repeat("x", 400_000))); err != nil {
		t.Errorf("an upload that fits: %v", err)
	}
	fake.Advance(time.Second)
	assertState("a", files.QuotaExceeded)
	if err := os.Remove(own); err != nil {
		t.Fatal(err)
	}
	fake.Advance(time.Second)
	l.Began("d", "", "d")
	l.Progressed("d", 600_000, 0)
	assertState("d", files.InProgress)
}

func TestAdd_LeavesNothingOfAPart(t *testing.T) {
	s, _ := newStore(t, t.TempDir())
	l := create(t, s, "one")
	if _, err := l.Add("a", 10, io.MultiReader(strings.NewReader("part"), failingReader{})); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
	_ = filepath.WalkDir(s.Dir, func(path string, e os.DirEntry, _ error) error {
		if !e.IsDir() {
			t.Errorf("left %s", path)
		}
		return nil
	})
}

var errBroken = errors.New("broken")

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errBroken }

// FuzzNames checks that no name leads out of the directory of a launch, and that names
// of sites become names that file systems and headers can carry.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"", ".", "..", "../../etc/passwd", `..\x`, "a/b", "a\x00b", "\xff", "a\u202Egnp.exe", strings.Repeat("ü", 200), "CON", "a\r\nb", "日本.pdf", " ", "-", "~"} {
		f.Add(name)
	}
	dir := f.TempDir()
	s, err := files.Open(files.Options{Dir: dir})
	if err != nil {
		f.Fatal(err)
	}
	l, err := s.Create("one", -1, "/svc/files")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string) {
		safe := files.SafeName(name)
		if problem := files.CheckName(safe); problem != "" || files.SafeName(safe) != safe {
			t.Fatalf("%q becomes %q, which %s", name, safe, problem)
		}
		if files.CheckName(name) == "" {
			added, err := l.Add(name, 1, strings.NewReader("x"))
			if err != nil {
				t.Fatalf("%q: %v", name, err)
			}
			content, _, err := l.Open(added.ID)
			if err != nil || filepath.Base(added.Path) != name || filepath.Dir(added.Path) != "/svc/files/uploads/"+added.ID {
				t.Fatalf("%q: %s %v", name, added.Path, err)
			}
			content.Close()
			if err := l.Delete(added.ID); err != nil {
				t.Fatal(err)
			}
		}
		l.Began(name, "", name) // as an id
		l.Completed(name, "/svc/files/downloads/"+name)
		for _, found := range l.List("") {
			if found.State == files.Complete {
				t.Fatalf("%q was found as %+v", name, found)
			}
			_ = l.Delete(found.ID)
		}
		if left, _ := os.ReadDir(filepath.Join(l.Shared(), "uploads")); len(left) > 0 {
			t.Fatalf("%q left %v", name, left)
		}
		if beside, _ := os.ReadDir(dir); len(beside) != 1 {
			t.Fatalf("%q made %v", name, beside)
		}
	})
}

// TestRecord_OutlivesLaunchAlone keeps a recording, but not the files, also of a killed worker.
func TestRecord_OutlivesLaunchAlone(t *testing.T) {
	for _, killed := range []bool{false, true} {
		dir := t.TempDir()
		s, _ := newStore(t, dir)
		l, session := create(t, s, "one"), uuid.New()
		if err := l.Bind(session, false); err != nil {
			t.Fatal(err)
		}
		recording, err := l.Record()
		if err != nil {
			t.Fatal(err)
		}
		complete(t, l, "b", "b.txt", "text")
		if err := os.WriteFile(filepath.Join(recording, "video"), []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
		if !killed {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Record(); !errors.Is(err, files.ErrEnded) {
				t.Errorf("after the end: %v", err)
			}
		}
		s.Wait()
		again, fake := newStore(t, dir)
		if found, ok := again.Recording(session); !ok || found != recording {
			t.Fatalf("killed=%t: the recording is not found", killed)
		}
		if _, ok := again.BySession(session); ok {
			t.Errorf("killed=%t: the files are found", killed)
		}
		if _, err := os.Stat(l.Shared()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("killed=%t: the files are kept: %v", killed, err)
		}
		fake.Advance(2 * time.Hour)
		if _, ok := again.Recording(session); ok {
			t.Errorf("killed=%t: the recording has not expired", killed)
		}
	}
}
