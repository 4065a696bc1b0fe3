package app_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"net/http/httptest"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// withRecordings stores recordings in an S3-compatible server.
func withRecordings(t *testing.T) func(*app.Config) {
	t.Helper()
	backend := s3mem.New()
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	if err := backend.CreateBucket("recordings"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	return func(c *app.Config) {
		withFiles(c)
		c.ObjectStoreURL = "s3://recordings?region=us-east-1&use_path_style=true&disable_https=true&endpoint=" + server.URL
	}
}

// TestRecordingStore_ServesRecordings stores a recording, and reads it from the worker that
// has made it and from others.
func TestRecordingStore_ServesRecordings(t *testing.T) {
	stored := withRecordings(t)
	r, site := startTestWorker(t, cloudtest.New(t), stored), newRecordedSite(t)
	s := r.launchRecorded(t, site, true, `["video","events","frames","har","trace"]`)
	if s.Recording == nil || s.Recording.Stored {
		t.Fatalf("at the start: %+v", s.Recording)
	}
	time.Sleep(time.Second) // the duration of the recording
	r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
	r.awaitRecording(t, s)
	testenv.Eventually(t, "the upload", func() bool {
		now := r.session(t, "GET", "/sessions/"+s.Id.String(), "").Recording
		return now != nil && now.Stored && now.State == workerapi.RecordingStateComplete
	})
	directory := filepath.Join(r.config.DataDir, "files", s.LaunchId.String())
	testenv.Eventually(t, "the removal from the disk", func() bool {
		_, err := os.Stat(directory)
		return os.IsNotExist(err)
	})
	if played := r.play(t, site, s); played.Duration < 1 {
		t.Errorf("the video has %v s", played.Duration)
	}
	own := r.filesOfSession(t, s)
	r.checkEvents(t, own, site)
	own.token = nil
	r.checkStoredAccess(t, own)

	same := startTestWorker(t, cloudtest.New(t), stored)
	r.checkStoredAccess(t, filesOf{same, t, own.base, nil})
	other := startTestWorker(t, cloudtest.New(t), stored, func(c *app.Config) { c.WorkerKey = "another-worker-key" })
	foreign := startTestWorker(t, cloudtest.New(t), stored, func(c *app.Config) { c.OrganizationKey = strings.ToUpper(cloudtest.Key) })
	for _, client := range []struct {
		worker *testWorker
		key    string
	}{{other, "another-worker-key"}, {foreign, workerKey}} {
		f := filesOf{client.worker, t, own.base, []string{"X-API-Key", client.key}}
		f.expect(404, "GET", "/recording", "")
		f.expect(404, "GET", "/recording/events", "")
		f.expect(404, "POST", "/recording/ticket", "")
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r.start(t)
	r.checkStoredAccess(t, own)
}

// checkStoredAccess reads a stored recording with the worker key and with a ticket.
func (r *testWorker) checkStoredAccess(t *testing.T, f filesOf) {
	t.Helper()
	if _, part := f.expect(206, "GET", "/recording", "", "Range", "bytes=0-3", "X-API-Key", workerKey); part != "\x1a\x45\xdf\xa3" {
		t.Errorf("the video begins with %x", part)
	}
	answer, all := f.expect(200, "GET", "/recording", "", "X-API-Key", workerKey)
	if _, end := f.expect(206, "GET", "/recording", "", "Range", "bytes=-9", "X-API-Key", workerKey); answer.ContentLength != int64(len(all)) || end != all[len(all)-9:] {
		t.Errorf("the video ends with %x", end)
	}
	f.expect(http.StatusOK, "GET", "/recording/frames", "", "X-API-Key", workerKey)
	f.expect(http.StatusOK, "GET", "/recording/har", "", "X-API-Key", workerKey)
	f.expect(http.StatusOK, "GET", "/recording/trace", "", "X-API-Key", workerKey)
	f.expect(416, "GET", "/recording", "", "Range", "bytes=99999999999-", "X-API-Key", workerKey)
	f.expect(401, "GET", "/recording", "")
	f.expect(401, "GET", "/recording/events", "")
	cookies := f.redeem(f.ticketOf())
	if len(cookies) != 1 {
		t.Fatalf("got %v", cookies)
	}
	cookie := []string{"Cookie", "svc_recording=" + cookies[0].Value}
	f.expect(http.StatusOK, "GET", "/recording/events", "", cookie...)
	f.expect(http.StatusPartialContent, "GET", "/recording", "", append(cookie, "Range", "bytes=5-9")...)
	unknown := filesOf{f.testWorker, t, "/sessions/0198a5c0-0000-7000-8000-000000000000", nil}
	unknown.expect(404, "GET", "/recording", "", "X-API-Key", workerKey)
	unknown.expect(401, "GET", "/recording", "", cookie...)
	f.secrets = append(f.secrets, cookies[0].Value)
}
