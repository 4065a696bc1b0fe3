package recording_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"gocloud.dev/blob"

	"github.com/browser-svc/svc/shared/bucket"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/media/recording"
	"github.com/browser-svc/svc/worker/internal/media/recording/recordingtest"
)

var owner = recording.Owner{Directory: "organization", Access: "worker key"}

// objectStore is an S3-compatible server that can fail.
type objectStore struct {
	*blob.Bucket
	failing atomic.Bool
	cut     atomic.Bool   // downloads end in the middle
	blocked chan struct{} // while it is open, requests wait; nil: they do not
	waiting chan struct{} // a request waits
}

func newObjectStore(t *testing.T) *objectStore {
	t.Helper()
	backend := s3mem.New()
	handler := gofakes3.New(backend).Server()
	s := &objectStore{waiting: make(chan struct{}, 100)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.failing.Load() {
			http.Error(w, "denied", http.StatusForbidden)
			return
		}
		if s.blocked != nil && r.Method == http.MethodPut {
			s.waiting <- struct{}{}
			select {
			case <-s.blocked:
			case <-r.Context().Done():
				return
			}
		}
		if s.cut.Load() && r.Method == http.MethodGet {
			serveHalf(handler, w, r)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	if err := backend.CreateBucket("recordings"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	var err error
	s.Bucket, err = bucket.Open(t.Context(), "OBJECT_STORE_URL", "s3://recordings?region=us-east-1&use_path_style=true&disable_https=true&endpoint="+server.URL, 0o700, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// serveHalf answers with the first lines of an object, and aborts the connection in the middle of the object.
func serveHalf(handler http.Handler, w http.ResponseWriter, r *http.Request) {
	whole := httptest.NewRecorder()
	handler.ServeHTTP(whole, r)
	maps.Copy(w.Header(), whole.Header())
	body := whole.Body.Bytes()
	_, _ = w.Write(body[:bytes.IndexByte(body, '\n')+1])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// storeFixture is a worker with a store.
type storeFixture struct {
	*recording.Service
	store *recording.Store
	data  string // its directory
	log   *testenv.Log
}

// newStoring starts a worker. Another one with the same directory continues.
func newStoring(t *testing.T, store *blob.Bucket, data string, own recording.Owner) *storeFixture {
	t.Helper()
	s := &storeFixture{data: data, log: &testenv.Log{}}
	logger := slog.New(slog.NewTextHandler(s.log, nil))
	dir := func(id uuid.UUID) (string, bool) {
		dir := filepath.Join(data, "files", id.String())
		_, err := os.Stat(dir)
		return dir, err == nil
	}
	var err error
	s.store, err = recording.OpenStore(recording.StoreOptions{
		Bucket: store, Journal: filepath.Join(data, "journal"), Retention: time.Hour, Own: own, Log: logger,
		Remove: func(id uuid.UUID) error { return os.RemoveAll(filepath.Join(data, "files", id.String())) },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Service = recording.New(recording.Options{Dir: dir, Log: logger, Store: s.store, StartProcess: recordingtest.StartProcess})
	t.Cleanup(s.stop)
	return s
}

// stop ends the worker at once.
func (s *storeFixture) stop() {
	s.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.store.Close(ctx)
}

// record records a short session of an organization, and returns its directory.
func (s *storeFixture) record(t *testing.T, o recording.Owner) (id uuid.UUID, dir string) {
	t.Helper()
	id = uuid.New()
	dir = filepath.Join(s.data, "files", id.String())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.data, 0o755); err != nil {
		t.Fatal(err)
	}
	done, firstPicture := make(chan struct{}), make(chan struct{})
	var once sync.Once
	pictures := showPictures(image.Pt(64, 48), 50*time.Millisecond)
	err := s.Start(recording.Subject{
		Session: id, Dir: dir, Owner: o, Done: done, Video: true, Frames: true, StartProcess: recordingtest.StartProcess, CheckSpace: func() recording.Reason { return "" },
		Pictures: func(ctx context.Context, show func(recording.Picture)) error {
			return pictures(ctx, func(p recording.Picture) {
				show(p)
				once.Do(func() { close(firstPicture) })
			})
		},
		Events: func(ctx context.Context, add func(recording.Event)) error {
			add(recording.Event{At: time.Now(), Kind: recording.TabOpened})
			<-firstPicture
			close(done)
			<-ctx.Done()
			return ctx.Err()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the end of the recording", func() bool {
		info, ok := s.Info(id)
		return ok && info.State == recording.Complete
	})
	return id, dir
}

func (s *storeFixture) awaitStored(t *testing.T, id uuid.UUID) {
	t.Helper()
	testenv.Eventually(t, "the upload", func() bool {
		info, ok := s.Info(id)
		return ok && info.Stored
	})
}

// read returns a part of a recording, from an offset.
func (s *storeFixture) read(t *testing.T, id uuid.UUID, name string, offset int64) string {
	t.Helper()
	content, err := s.Open(t.Context(), id, name)
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	if position, err := content.Seek(offset, io.SeekStart); err != nil || position != offset {
		t.Fatalf("%d: %v", position, err)
	}
	text, err := io.ReadAll(content)
	if err != nil || int64(len(text)) != content.Size()-offset {
		t.Fatalf("%d bytes of %d: %v", len(text), content.Size(), err)
	}
	return string(text)
}

// keys lists the objects.
func keys(t *testing.T, store *blob.Bucket) (names []string) {
	t.Helper()
	for all := store.List(nil); ; {
		object, err := all.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, object.Key)
	}
}

// TestStore_ServesStoredRecordings stores a recording and reads it on three workers.
func TestStore_ServesStoredRecordings(t *testing.T) {
	objects := newObjectStore(t)
	first := newStoring(t, objects.Bucket, testenv.PublicTempDir(t), owner)
	id, dir := first.record(t, owner)
	first.awaitStored(t, id)
	testenv.Eventually(t, "the removal", func() bool {
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	})
	base := "recordings/organization/" + id.String() + "/"
	if got := strings.Join(keys(t, objects.Bucket), " "); got != base+"events.jsonl "+base+"frames.jpegs "+base+"frames.jsonl "+base+"recording.json "+base+"video.webm" {
		t.Errorf("got %s", got)
	}
	foreign, _ := first.record(t, recording.Owner{Directory: "other", Access: "worker key"}) // of a caller's key
	first.awaitStored(t, foreign)
	if got := first.read(t, foreign, recording.EventsName, 0); !strings.Contains(got, "recording_ended") {
		t.Errorf("got %s", got)
	}
	two := newStoring(t, objects.Bucket, testenv.PublicTempDir(t), owner)
	for _, worker := range []*storeFixture{first, two} {
		if info, err := worker.Find(t.Context(), id); err != nil || !info.Stored || info.State != recording.Complete || info.Bytes == 0 {
			t.Errorf("got %+v, %v", info, err)
		}
		if got := worker.read(t, id, recording.VideoName, 0); !strings.HasPrefix(got, "\x1a\x45\xdf\xa3") || got[100:] != worker.read(t, id, recording.VideoName, 100) {
			t.Errorf("the video has %d bytes", len(got))
		}
		if got := worker.read(t, id, recording.EventsName, 0); !strings.Contains(got, "tab_opened") {
			t.Errorf("got %s", got)
		}
		if _, err := worker.Open(t.Context(), uuid.New(), recording.VideoName); !errors.Is(err, recording.ErrNone) {
			t.Errorf("an unknown session: %v", err)
		}
	}
	for name, own := range map[string]recording.Owner{
		"another worker key": {Directory: "organization", Access: "other"}, "another organization": {Directory: "other", Access: "worker key 2"}, "no key": {},
	} {
		other := newStoring(t, objects.Bucket, testenv.PublicTempDir(t), own)
		for _, session := range []uuid.UUID{id, foreign} {
			if _, err := other.Open(t.Context(), session, recording.EventsName); !errors.Is(err, recording.ErrNone) {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := other.Find(t.Context(), session); !errors.Is(err, recording.ErrNone) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	objects.failing.Store(true)
	if _, err := first.Open(t.Context(), id, recording.VideoName); !errors.Is(err, recording.ErrStore) {
		t.Errorf("a failing store: %v", err)
	}
	if _, err := two.Find(t.Context(), id); !errors.Is(err, recording.ErrStore) {
		t.Errorf("a failing store: %v", err)
	}
}

// TestStore_ReportsFramesCutOff reads an index of frames whose connection breaks after its first line.
func TestStore_ReportsFramesCutOff(t *testing.T) {
	objects := newObjectStore(t)
	first := newStoring(t, objects.Bucket, testenv.PublicTempDir(t), owner)
	id, _ := first.record(t, owner)
	first.awaitStored(t, id)
	base := "recordings/organization/" + id.String() + "/"
	index, err := objects.ReadAll(t.Context(), base+recording.FrameIndexName)
	if err != nil {
		t.Fatal(err)
	}
	if err := objects.WriteAll(t.Context(), base+recording.FrameIndexName, bytes.Repeat(index, 2), nil); err != nil { // at least two lines
		t.Fatal(err)
	}
	objects.cut.Store(true)
	if frames, err := first.OpenFrames(t.Context(), id); !errors.Is(err, recording.ErrStore) {
		t.Errorf("got %+v: %v", frames, err)
	}
}

// TestStore_RetriesAndResumes uploads after failures, a shutdown and a kill.
func TestStore_RetriesAndResumes(t *testing.T) {
	objects, data := newObjectStore(t), testenv.PublicTempDir(t)
	objects.failing.Store(true)
	first := newStoring(t, objects.Bucket, data, owner)
	id, _ := first.record(t, owner)
	testenv.Eventually(t, "a retry", func() bool { return strings.Count(first.log.String(), "it is tried again") > 1 })
	if got := first.read(t, id, recording.VideoName, 0); got == "" { // from the disk
		t.Error("the video is empty")
	}
	first.stop()
	if !strings.Contains(first.log.String(), "the next start of this worker continues") {
		t.Errorf("got log\n%s", first.log)
	}
	if err := os.WriteFile(filepath.Join(data, "journal", "damaged.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	objects.failing.Store(false)
	two := newStoring(t, objects.Bucket, data, owner)
	two.awaitStored(t, id)
	if !strings.Contains(two.log.String(), "journal of recordings is damaged") {
		t.Errorf("got log\n%s", two.log)
	}
	// A worker that was killed leaves a description that says recording.
	killed, left := uuid.New(), filepath.Join(data, "files")
	if err := errors.Join(os.Mkdir(filepath.Join(left, killed.String()), 0o700),
		os.WriteFile(filepath.Join(left, killed.String(), "recording.json"), []byte(`{"events":true,"state":"recording"}`), 0o600),
		os.WriteFile(filepath.Join(left, killed.String(), recording.EventsName), []byte("{}\n"), 0o600),
		os.WriteFile(filepath.Join(data, "journal", killed.String()+".json"), []byte(`{"sessionId":"`+killed.String()+`","owner":{"Directory":"organization","Access":"worker key"}}`), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	two.stop()
	three := newStoring(t, objects.Bucket, data, owner)
	three.awaitStored(t, killed)
	if info, _ := three.Info(killed); info.State != recording.Incomplete || info.Reason != recording.Interrupted {
		t.Errorf("got %+v", info)
	}
	if got := three.read(t, killed, recording.EventsName, 0) + three.read(t, id, recording.EventsName, 0); !strings.HasPrefix(got, "{}\n") {
		t.Errorf("got %s", got)
	}
}

// TestStore_ClosesWithinLimit ends an upload that does not end by itself.
func TestStore_ClosesWithinLimit(t *testing.T) {
	objects := newObjectStore(t)
	objects.blocked = make(chan struct{})
	first := newStoring(t, objects.Bucket, testenv.PublicTempDir(t), owner)
	first.record(t, owner)
	<-objects.waiting
	first.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	first.store.Close(ctx)
	if took := time.Since(began); took < 250*time.Millisecond || took > 10*time.Second {
		t.Errorf("closed after %v", took)
	}
	if first.store.Unstored() != 1 {
		t.Errorf("%d recordings are not stored", first.store.Unstored())
	}
	two := newStoring(t, objects.Bucket, first.data, owner)
	<-objects.waiting
	close(objects.blocked)
	two.Close()
	two.store.Close(t.Context()) // waits for the upload
	if left := two.store.Unstored(); left != 0 || !strings.Contains(two.log.String(), "recording stored") {
		t.Errorf("%d recordings are not stored\n%s", left, two.log)
	}
}

// TestStore_DeletesExpiredOnly deletes a recording after its retention, on another worker,
// and nothing else in the store.
func TestStore_DeletesExpiredOnly(t *testing.T) {
	dir := t.TempDir()
	objects, err := bucket.OpenDir("recordings", dir, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	first := newStoring(t, objects, testenv.PublicTempDir(t), owner)
	expired, _ := first.record(t, owner)
	recent, _ := first.record(t, owner)
	first.awaitStored(t, expired)
	first.awaitStored(t, recent)
	session := uuid.NewString()
	others := []string{"other/profile/manifest", "recordings/organization/notes.txt", "recordings/organization/" + session + "/notes.txt", "recordings/a/b/video.webm"}
	orphan := "recordings/organization/" + uuid.NewString() + "/video.webm"
	for _, key := range append(others, orphan) {
		if err := objects.WriteAll(t.Context(), key, []byte("x"), nil); err != nil {
			t.Fatal(err)
		}
	}
	before := len(keys(t, objects))
	age := func(prefix string, by time.Duration) {
		t.Helper()
		for _, key := range keys(t, objects) {
			if modified := time.Now().Add(-by); strings.Contains(key, prefix) {
				if err := os.Chtimes(filepath.Join(dir, key), modified, modified); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	collect := func(want int) {
		t.Helper()
		two, err := recording.OpenStore(recording.StoreOptions{Bucket: objects, Journal: t.TempDir(), Retention: time.Hour, Clock: clock.System{}})
		if err != nil {
			t.Fatal(err)
		}
		defer two.Close(t.Context())
		if deleted, err := two.Collect(t.Context()); err != nil || deleted != want {
			t.Errorf("%d recordings deleted, want %d: %v", deleted, want, err)
		}
	}
	age("", 2*time.Hour)
	collect(0) // the descriptions say that they expire later
	description := "recordings/organization/" + expired.String() + "/recording.json"
	raw, err := objects.ReadAll(t.Context(), description)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(raw), `"expiresAt":"`)
	if err := objects.WriteAll(t.Context(), description, []byte(head+`"expiresAt":"2026-01-01T00:00:00Z"}`), nil); err != nil {
		t.Fatal(err)
	}
	collect(0) // an object is young
	age("", 2*time.Hour)
	collect(1)
	age(orphan, 48*time.Hour)
	collect(1)
	if left := keys(t, objects); len(left) != before-6+1 { // the parts of two recordings; and the time of the collection
		t.Errorf("left %d of %d: %v", len(left), before, left)
	}
	if got := first.read(t, recent, recording.EventsName, 0); got == "" {
		t.Error("the other recording is empty")
	}
	if _, err := first.Open(t.Context(), expired, recording.EventsName); !errors.Is(err, recording.ErrMissing) {
		t.Errorf("the expired recording: %v", err)
	}
}
