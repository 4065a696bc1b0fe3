package profiledata_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"gocloud.dev/blob"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/data/profiledata"
)

// storeKey is the key of the organization in these tests.
var storeKey = bytes.Repeat([]byte{1}, 32)

// storedFiles returns files whose every byte depends on a number, so that a save sends
// all of them.
func storedFiles(number int) map[string]string {
	random, all := rand.New(rand.NewSource(int64(number))), map[string]string{"number": strconv.Itoa(number)}
	for i := range 12 {
		text := make([]byte, 500_000)
		random.Read(text)
		all[fmt.Sprintf("Default/f%02d", i)] = string(text)
	}
	return all
}

// saveRemotely saves data to an object store, as a worker does. It runs as a separate
// process. Its arguments are the URLs of the store and of the cloud, the version to
// restore, if there is one, and the number of the data.
func saveRemotely(args []string) error {
	bucket, err := profiledata.OpenBucket(context.Background(), args[0], nil)
	if err != nil {
		return err
	}
	use := profiledata.Use{ProfileID: profileID, Key: storeKey, Commit: func(ctx context.Context, v profiledata.SavedVersion) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, args[1]+"/commit/"+v.ID.String(), http.NoBody)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}}
	if current, err := uuid.Parse(args[2]); err == nil {
		use.Current = &current
	}
	number, _ := strconv.Atoi(args[3])
	h, err := profiledata.Open(profiledata.Options{Bucket: bucket, Versions: 3, MaxBytes: 64 << 20, Clock: clock.System{}}).Handle(use)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(os.Getenv("TMPDIR"))
	if err != nil {
		return err
	}
	if err := h.Restore(context.Background(), root); err != nil {
		return err
	}
	if err := writeFiles(root, storedFiles(number)); err != nil {
		return err
	}
	fmt.Println("saving", number)
	if err := h.Save(context.Background(), root); err != nil {
		return err
	}
	fmt.Println("saved", number)
	return nil
}

func writeFiles(root *os.Root, files map[string]string) error {
	for name, text := range files {
		if err := errors.Join(root.MkdirAll(filepath.Dir(name), 0o700), root.WriteFile(name, []byte(text), 0o600)); err != nil {
			return err
		}
	}
	return nil
}

// service is the S3 server and the cloud of a process that saves. It kills the process
// before or after it handles a request.
type service struct {
	store http.Handler
	r     *remoteFixture

	mu        sync.Mutex
	events    int            // of the save: two for each write and for the commit
	killEvent string         // event at which it kills the process: a number or a name
	kill      func()         // nil: no process runs
	active    sync.WaitGroup // requests of the process
}

// ServeHTTP implements http.Handler.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut && r.Method != http.MethodPost { // a read
		s.store.ServeHTTP(w, r)
		return
	}
	what := filepath.Base(r.URL.Path)
	if strings.HasPrefix(r.URL.Path, "/commit/") {
		what = "commit"
	}
	defer s.event(what, true)()
	answer := httptest.NewRecorder()
	if what == "commit" {
		s.r.versions = append(s.r.versions, profiledata.SavedVersion{ID: uuid.MustParse(filepath.Base(r.URL.Path))})
	} else {
		s.store.ServeHTTP(answer, r)
	}
	s.event(what, false)()
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = answer.Body.WriteTo(w)
}

// event counts an event and kills the process if it is the one. A request of a killed
// process is not handled. done ends the request.
func (s *service) event(what string, before bool) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := "after " + what
	if before {
		name = "before " + what
	}
	s.events++
	if s.kill != nil && (s.killEvent == strconv.Itoa(s.events) || s.killEvent == name) {
		s.kill()
		s.kill = nil
	}
	if s.kill == nil {
		panic(http.ErrAbortHandler)
	}
	if !before {
		return func() {}
	}
	s.active.Add(1)
	return s.active.Done
}

// stop kills the process, if it still runs, and waits for its requests.
func (s *service) stop() {
	s.mu.Lock()
	if s.kill != nil {
		s.kill()
		s.kill = nil
	}
	s.mu.Unlock()
	s.active.Wait()
}

// remoteSaves saves data in processes of their own, and kills them.
type remoteSaves struct {
	*remoteFixture
	service *service
	cloud   string // URL
	store   string // URL, for the processes
	bucket  *blob.Bucket
	saved   int // number of the data of the current version
	garbage int // objects that killed saves left
}

// newRemoteSaves starts a cloud, and an S3 server for the processes unless they use a
// directory.
func newRemoteSaves(t *testing.T, inDirectory bool) *remoteSaves {
	t.Helper()
	s := &remoteSaves{service: &service{}}
	server := httptest.NewServer(s.service)
	t.Cleanup(server.Close)
	s.cloud = server.URL
	var err error
	if inDirectory {
		s.remoteFixture = newRemote(t)
		s.store = "file://" + s.dir
		s.bucket, err = profiledata.OpenBucket(t.Context(), s.store, nil)
	} else {
		s.service.store, s.bucket = startS3(t)
		s.remoteFixture = newRemote(t, s.bucket)
		s.store = s3URL(server.URL)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.service.r = s.remoteFixture
	s.saveNext(t)
	return s
}

// saveNext saves the next data and checks that it is the current version.
func (s *remoteSaves) saveNext(t *testing.T) {
	t.Helper()
	s.saved++
	data := tree{"Default": dir()}
	for name, text := range storedFiles(s.saved) {
		data[name] = file(text)
	}
	s.save(t, data)
	s.assertRestored(t)
	s.versions = s.versions[len(s.versions)-1:]
}

// assertRestored checks that a launch would find exactly the data of the last version.
func (s *remoteSaves) assertRestored(t *testing.T) {
	t.Helper()
	found := map[string]string{}
	for name, n := range s.restored(t) {
		if n.Mode.IsRegular() {
			found[name] = n.Text
		}
	}
	if want := storedFiles(s.saved); !cmp.Equal(want, found) {
		t.Errorf("restored %d files with number %q, want number %q", len(found), found["number"], want["number"])
	}
}

// run saves the next data in a process. It kills the process at an event, or after some
// time. It returns how long the save took.
func (s *remoteSaves) run(t *testing.T, event string, after time.Duration) time.Duration {
	t.Helper()
	s.service.mu.Lock()
	p := startProcess(t, s.store, "save-remotely", s.cloud, s.current(), s.saved+1)
	s.service.events, s.service.killEvent, s.service.kill = 0, event, func() { _ = p.Process.Kill() }
	s.service.mu.Unlock()
	p.await(t, "saving")
	began, versions := time.Now(), len(s.versions)
	if after > 0 {
		defer time.AfterFunc(after, s.service.stop).Stop()
	}
	for p.output.Scan() {
	}
	took := time.Since(began)
	p.kill()
	s.service.stop()
	if len(s.versions) > versions {
		s.saved++
	}
	return took
}

// check checks the store after a killed save.
func (s *remoteSaves) check(t *testing.T) {
	t.Helper()
	s.assertRestored(t)
	s.versions = s.versions[len(s.versions)-1:]
	done, err := s.CollectGarbage(t.Context(), index{s.remoteFixture}, allAges)
	if err != nil {
		t.Error(err)
	}
	s.garbage += done.Objects
	for all := s.bucket.List(nil); ; {
		entry, err := all.Next(t.Context())
		if err != nil {
			break
		}
		if !strings.Contains(entry.Key, s.current().String()) && filepath.Base(entry.Key) != "collected" {
			t.Errorf("the garbage collection left %s", entry.Key)
		}
	}
	s.assertRestored(t)
	s.saveNext(t)
}

// TestRemote_KilledSaveKeepsLastVersion kills a process before and after requests of a
// save, and at times between. Then it checks that the last version is complete, that
// nothing of the killed save is left after a garbage collection, and that the next save
// works.
func TestRemote_KilledSaveKeepsLastVersion(t *testing.T) {
	points := 0
	t.Run("at requests to S3 and the cloud", func(t *testing.T) {
		s := newRemoteSaves(t, false)
		s.run(t, "", 0)
		total := s.service.events
		events := []string{"before manifest", "after manifest", "before commit", "after commit"}
		for n, count := 0, testenv.Depth(2, 36); n < count; n++ {
			events = append(events, strconv.Itoa(1+n*total*3/4/count))
		}
		for _, event := range events {
			before := s.saved
			s.run(t, event, 0)
			if committed := s.saved > before; committed != (event == "after commit") {
				t.Errorf("killed %s: committed %v", event, committed)
			}
			s.check(t)
			if t.Failed() {
				t.Fatalf("killed at event %s of %d", event, total)
			}
		}
		points += len(events)
		t.Logf("killed at %d of %d events; %d objects of killed saves were collected", len(events), total, s.garbage)
		if s.garbage == 0 {
			t.Error("no killed save had sent anything")
		}
	})
	t.Run("at times, in a directory", func(t *testing.T) {
		s := newRemoteSaves(t, true)
		took := s.run(t, "", 0)
		for n, count := 0, testenv.Depth(2, 10); n < count; n++ {
			s.run(t, "", time.Duration(n+1)*took/time.Duration(count+1))
			s.check(t)
			points++
		}
		t.Logf("a save takes %v; %d objects of killed saves were collected", took, s.garbage)
	})
	if want := testenv.Depth(8, 50); points != want {
		t.Errorf("killed at %d points, want %d", points, want)
	}
}
