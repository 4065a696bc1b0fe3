package app_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/media/recording"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// startRecording starts to record a running browser.
func (f filesOf) startRecording(parts string) workerapi.Recording {
	f.t.Helper()
	answer, text := f.expect(201, "POST", "/recording", `{"record":`+parts+`}`, "Content-Type", "application/json")
	got := decode[workerapi.RecordingResponse](f.t, []byte(text)).Data
	if got == nil || !strings.HasSuffix(answer.Header.Get("Location"), "/recording") {
		f.t.Fatalf("got %s with the headers %v", text, answer.Header)
	}
	return *got
}

// TestRecording_StartsAndStops records a part of a running session, and plays it as WebM and MP4.
func TestRecording_StartsAndStops(t *testing.T) {
	r, site := startTestWorker(t, cloudtest.New(t), withFiles), newRecordedSite(t)
	s := r.launchRecorded(t, site, true, `[]`)
	f, ended := r.filesOf(t, s), r.filesOfSession(t, s)
	f.expect(409, "DELETE", "/recording", "")
	for _, body := range []string{``, `{}`, `{"record":[]}`, `{"record":["sound"]}`, `{"record":["video"],"fps":60}`} {
		f.expect(400, "POST", "/recording", body, "Content-Type", "application/json")
	}
	for _, method := range []string{"POST", "DELETE"} {
		if _, text := (filesOf{r, t, f.base, []string{"X-Svc-Token", r.viewTicket(t, s)}}).expect(404, method, "/recording", ""); text != "unknown browser" {
			t.Errorf("%s with a view ticket: %s", method, text)
		}
	}
	if got := f.startRecording(`["video","events"]`); got.State != workerapi.RecordingStateRecording || !got.Video || !got.Events || got.Frames || got.Url == nil {
		t.Errorf("started: %+v", got)
	}
	if now := r.session(t, "GET", "/sessions/"+s.Id.String(), "").Recording; now == nil || now.State != workerapi.RecordingStateRecording {
		t.Errorf("the session has %+v", now)
	}
	f.expect(409, "POST", "/recording", `{"record":["video"]}`, "Content-Type", "application/json")
	ended.expect(409, "GET", "/recording?format=mp4", "")
	testenv.Eventually(t, "the start of the encoder", func() bool {
		video, err := os.Stat(filepath.Join(r.directoryOf(s), recording.VideoName))
		return err == nil && video.Size() > 0
	})
	_, text := f.expect(200, "DELETE", "/recording", "")
	got := decode[workerapi.RecordingResponse](t, []byte(text)).Data
	if got == nil || got.State != workerapi.RecordingStateComplete || got.Bytes == 0 || got.Url == nil || !strings.HasSuffix(*got.Url, ended.base+"/recording/player") {
		t.Errorf("stopped: %s", text)
	}
	f.expect(409, "DELETE", "/recording", "")
	if _, text := f.expect(409, "POST", "/recording", `{"record":["video"]}`, "Content-Type", "application/json"); !strings.Contains(text, "A session has one recording") {
		t.Errorf("started again: %s", text)
	}
	if now := r.session(t, "GET", "/sessions/"+s.Id.String(), ""); now.Status != "running" {
		t.Errorf("the session is %s", now.Status)
	}
	if played := r.play(t, site, s); played.Duration <= 0 {
		t.Errorf("the video has %v s", played.Duration)
	}
	ended.checkFormats()
	r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
	f.expect(404, "POST", "/recording", `{"record":["video"]}`, "Content-Type", "application/json")
	f.expect(404, "DELETE", "/recording", "")
	ended.expect(200, "GET", "/recording/events", "")
}

// checkFormats requests the video in all ways.
func (f filesOf) checkFormats() {
	f.t.Helper()
	const chrome = "video/webm,video/ogg,video/*;q=0.9,application/ogg;q=0.7,audio/*;q=0.6,*/*;q=0.5"
	for _, tc := range []struct{ path, accept, want string }{
		{"/recording", "", "video/webm"},
		{"/recording", "*/*", "video/webm"},
		{"/recording", chrome, "video/webm"},
		{"/recording", "video/mp4", "video/mp4"},
		{"/recording", "video/webm;q=0.5, video/mp4", "video/mp4"},
		{"/recording", "video/mp4;q=0.8,video/*", "video/webm"},
		{"/recording?format=webm", "video/mp4", "video/webm"},
		{"/recording?format=mp4", chrome, "video/mp4"},
	} {
		var headers []string
		if tc.accept != "" {
			headers = []string{"Accept", tc.accept}
		}
		answer, text := f.expect(200, "GET", tc.path, "", headers...)
		if kind := answer.Header.Get("Content-Type"); kind != tc.want || answer.Header.Get("Vary") != "Accept" || strings.Contains(text[:12], "ftyp") != (tc.want == "video/mp4") {
			f.t.Errorf("%s with Accept %q: %s, %q", tc.path, tc.accept, kind, text[:12])
		}
	}
	if _, part := f.expect(206, "GET", "/recording?format=mp4", "", "Range", "bytes=4-7"); part != "ftyp" {
		f.t.Errorf("got %q", part)
	}
	f.expect(400, "GET", "/recording?format=avi", "")
	_, video := f.expect(200, "GET", "/recording?format=mp4", "")
	path := filepath.Join(f.t.TempDir(), recording.MP4Name)
	if err := os.WriteFile(path, []byte(video), 0o600); err != nil {
		f.t.Fatal(err)
	}
	codec, err := exec.CommandContext(f.t.Context(), "ffprobe", "-v", "error", "-show_entries", "stream=codec_name", "-of", "csv=p=0", path).CombinedOutput()
	if err != nil || strings.TrimSpace(string(codec)) != "h264" {
		f.t.Errorf("%s: %v", codec, err)
	}
}

// TestRecording_RefusesToStart starts recordings that are impossible.
func TestRecording_RefusesToStart(t *testing.T) {
	for _, tc := range []struct {
		parts, want string
		change      func(*app.Config)
	}{
		{`["events"]`, "FILES_RETENTION", func(c *app.Config) { c.FilesRetention = 0 }},
		{`["video","events"]`, "ffmpeg", withFiles},
	} {
		r := startTestWorker(t, cloudtest.New(t), tc.change)
		f := r.filesOf(t, r.launch(t))
		path := os.Getenv("PATH")
		t.Setenv("PATH", t.TempDir())
		_, text := f.expect(400, "POST", "/recording", `{"record":`+tc.parts+`}`, "Content-Type", "application/json")
		if got := decode[failure](t, []byte(text)); len(got.Error.Details) != 1 || got.Error.Details[0].Field != "record" || !strings.Contains(got.Error.Details[0].Message, tc.want) {
			t.Errorf("%s: %s", tc.parts, text)
		}
		t.Setenv("PATH", path)
	}
	r := startTestWorker(t, cloudtest.New(t), withFiles)
	s := r.launch(t)
	if err := os.WriteFile(filepath.Join(r.config.DataDir, "files", s.LaunchId.String(), "filler"), make([]byte, 17<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, text := r.filesOf(t, s).expect(409, "POST", "/recording", `{"record":["events"]}`, "Content-Type", "application/json"); !strings.Contains(text, "LAUNCH_FILES_MB") {
		t.Errorf("beyond the quota: %s", text)
	}
}

// TestRecording_AnswersThatStartFailed removes the journal of the worker, so that no recording can start, and launches in
// all ways. The cloud gets no URL. Then the recording is started again.
func TestRecording_AnswersThatStartFailed(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withRecordings(t))
	journal := filepath.Join(r.config.DataDir, "recordings")
	if err := os.RemoveAll(journal); err != nil {
		t.Fatal(err)
	}
	profile := r.cloud.Profile(r.version)
	s := r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q,"browser":{"record":["video","events"]}}`, profile))
	check := func(way string, answer *workerapi.Recording) {
		t.Helper()
		if answer == nil || answer.State != workerapi.RecordingStateFailed || answer.Reason == nil || *answer.Reason != workerapi.RecordingReasonStartFailed || !answer.Video || !answer.Events || answer.Url != nil {
			t.Errorf("%s: %+v", way, answer)
		}
	}
	check("the launch", s.Recording)
	check("the session", r.session(t, "GET", "/sessions/"+s.Id.String(), "").Recording)
	env := fmt.Sprintf(`{"SVC_KEY":%q,"profileId":%q,"browser":{"record":["video","events"]}}`, cloudtest.Key, profile)
	socket, err := ws.Dial(t.Context(), "ws"+strings.TrimPrefix(r.url, "http")+"/launch?env="+base64.RawURLEncoding.EncodeToString([]byte(env)), http.Header{}, ws.Options{})
	if err != nil {
		t.Fatal(err)
	}
	conn := cdp.OverWebSocket(socket)
	defer conn.Close()
	var raw json.RawMessage
	if err := conn.Call(t.Context(), "", "Svc.getSessionInfo", nil, &raw); err != nil {
		t.Fatal(err)
	}
	check("the socket", decode[struct{ Recording *workerapi.Recording }](t, raw).Recording)
	for _, call := range r.cloud.Calls(cloudtest.Start) {
		if call.Start.Recording != nil {
			t.Errorf("the start report contains the recording %+v", call.Start.Recording)
		}
	}
	r.filesOfSession(t, s).expect(404, "GET", "/recording", "")
	if err := os.Mkdir(journal, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := r.filesOf(t, s).startRecording(`["events"]`); got.State != workerapi.RecordingStateRecording {
		t.Errorf("started again: %+v", got)
	}
}
