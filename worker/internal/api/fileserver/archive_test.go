package fileserver_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/worker/internal/api/fileserver"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/data/files"
)

// firstWrite is a response whose first part calls a function before it is sent.
type firstWrite struct {
	*httptest.ResponseRecorder
	once sync.Once
	do   func()
}

func (w *firstWrite) Write(p []byte) (int, error) {
	w.once.Do(w.do)
	return w.ResponseRecorder.Write(p)
}

// newLaunch returns a launch with complete downloads, the last one being the newest, and
// their directory. Their ids are the names without a suffix, and each content is longer than
// the buffers of an archive.
func newLaunch(t *testing.T, session uuid.UUID, names ...string) (*files.Store, *files.Launch, string) {
	t.Helper()
	fake := clock.NewFake(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	s, err := files.Open(files.Options{Dir: t.TempDir(), Clock: fake})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Wait)
	l, err := s.Create("one", -1, "/svc/files")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Bind(session, false); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(l.Shared(), files.DownloadsBelow)
	for _, name := range names {
		fake.Advance(time.Minute)
		id := strings.TrimSuffix(name, ".json")
		l.Began(id, "", name)
		if err := os.WriteFile(filepath.Join(dir, id), bytes.Repeat([]byte(name), 100_000), 0o600); err != nil {
			t.Fatal(err)
		}
		l.Completed(id, "")
	}
	return s, l, dir
}

// archive returns the archive of a session's files. change is called while it is sent.
func archive(t *testing.T, s *files.Store, session uuid.UUID, change func()) *httptest.ResponseRecorder {
	t.Helper()
	service := fileserver.New(s, nil, nil, nil, access.Address{})
	t.Cleanup(service.Close)
	e := echo.New()
	service.Register(e)
	w := &firstWrite{ResponseRecorder: httptest.NewRecorder(), do: change}
	e.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/sessions/"+session.String()+"/files.zip", nil))
	return w.ResponseRecorder
}

// TestArchive_SkipsWhatIsGone removes files, and changes them, while the archive is sent.
func TestArchive_SkipsWhatIsGone(t *testing.T) {
	session := uuid.New()
	s, l, dir := newLaunch(t, session, "skipped", "unlinked", "changed", "deleted", "newest")
	answer := archive(t, s, session, func() {
		if err := l.Delete("deleted"); err != nil {
			t.Error(err)
		}
		if err := os.Remove(filepath.Join(dir, "unlinked")); err != nil {
			t.Error(err)
		}
		if err := os.Truncate(filepath.Join(dir, "changed"), 10); err != nil {
			t.Error(err)
		}
	})
	body := answer.Body.Bytes()
	read, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range read.File {
		names = append(names, f.Name)
		content, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(content)
		if err != nil || len(text) != 100_000*len(f.Name) && f.Name != "skipped.json" {
			t.Errorf("%s has %d bytes, %v", f.Name, len(text), err)
		}
	}
	if want := []string{"newest", "skipped", "skipped.json"}; !slices.Equal(names, want) {
		t.Fatalf("got %q, want %q", names, want)
	}
	manifest, err := read.Open("skipped.json")
	if err != nil {
		t.Fatal(err)
	}
	var skipped struct {
		Skipped []struct{ ID, Name, Reason string }
	}
	if err := json.NewDecoder(manifest).Decode(&skipped); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range skipped.Skipped {
		got = append(got, f.ID+" "+f.Name+" "+f.Reason)
	}
	if want := []string{"deleted deleted deleted", "changed changed unreadable", "unlinked unlinked unreadable"}; !slices.Equal(got, want) {
		t.Errorf("skipped %q, want %q", got, want)
	}
}

// TestArchive_NamesManifestOnce checks that a file does not hide the manifest, and that there
// is none without need.
func TestArchive_NamesManifestOnce(t *testing.T) {
	session := uuid.New()
	s, l, _ := newLaunch(t, session, "a", "skipped.json")
	for _, remove := range []bool{false, true} {
		answer := archive(t, s, session, func() {
			if remove {
				if err := l.Delete("a"); err != nil {
					t.Error(err)
				}
			}
		})
		body := answer.Body.Bytes()
		read, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range read.File {
			names = append(names, f.Name)
		}
		want := "skipped.json,a"
		if remove {
			want = "skipped.json,skipped (1).json"
		}
		if got := strings.Join(names, ","); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestArchive_AbortsInsideFile truncates the file that is being sent.
func TestArchive_AbortsInsideFile(t *testing.T) {
	session := uuid.New()
	s, _, dir := newLaunch(t, session, "newest")
	defer func() {
		if got, _ := recover().(error); !errors.Is(got, http.ErrAbortHandler) {
			t.Errorf("got %v, want an aborted answer", got)
		}
	}()
	archive(t, s, session, func() {
		if err := os.Truncate(filepath.Join(dir, "newest"), 10); err != nil {
			t.Error(err)
		}
	})
	t.Error("the answer is complete")
}
