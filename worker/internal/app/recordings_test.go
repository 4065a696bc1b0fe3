package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/media/recording"
	"github.com/browser-svc/svc/worker/internal/media/recording/recordingtest"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// recordedSite has a page that is red until the test lets it become blue, and a page that
// plays a video. Pages send what they observe.
type recordedSite struct {
	*httptest.Server
	next    chan struct{} // the page becomes blue
	waiting chan struct{} // the page is red
	video   string
	reports chan string
}

const recordedPage = `<!doctype html><title>secret</title><body style="margin:0;background:#f00"><script>
console.log('ready');
let frames = 0, changes = 0;
document.addEventListener('visibilitychange', () => changes++);
addEventListener('blur', () => changes++);
addEventListener('resize', () => changes++);
(function count() { frames++; requestAnimationFrame(count) })();
const began = performance.now();
fetch('/missing?password=secret');
fetch('/next').then(() => {
  document.body.style.background = '#00f';
  const rate = frames / (performance.now() - began) * 1000;
  fetch('/report', {method: 'POST', body: JSON.stringify({rate, changes, visible: document.visibilityState, focus: document.hasFocus(), screen: innerWidth + 'x' + innerHeight})});
});
</script>`

const playerPage = `<!doctype html><video id=v muted preload=auto src=/video></video><script>
const v = document.getElementById('v');
const send = body => fetch('/report', {method: 'POST', body: JSON.stringify(body)});
v.onerror = () => send({error: v.error.message});
v.onloadedmetadata = async () => {
  await v.play();
  v.pause();
  send({duration: v.duration, width: v.videoWidth, height: v.videoHeight});
};
</script>`

func newRecordedSite(t *testing.T) *recordedSite {
	t.Helper()
	s := &recordedSite{next: make(chan struct{}), waiting: make(chan struct{}, 10), reports: make(chan string, 10)}
	mux := http.NewServeMux()
	page := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(text))
		}
	}
	mux.HandleFunc("/page", page(recordedPage))
	mux.HandleFunc("/player", page(playerPage))
	mux.HandleFunc("/next", func(_ http.ResponseWriter, r *http.Request) {
		s.waiting <- struct{}{}
		select {
		case <-s.next:
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/video", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "video/webm")
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(s.video))
	})
	mux.HandleFunc("/report", func(_ http.ResponseWriter, r *http.Request) {
		var text json.RawMessage
		_ = json.NewDecoder(r.Body).Decode(&text)
		s.reports <- string(text)
	})
	s.Server = testenv.Serve(t, mux)
	return s
}

// report returns the next report of a page.
func report[T any](t *testing.T, s *recordedSite) T {
	t.Helper()
	select {
	case text := <-s.reports:
		return decode[T](t, []byte(text))
	case <-time.After(30 * time.Second):
		t.Fatal("the page does not report")
	}
	panic("unreachable")
}

// observed is what a recorded page observes.
type observed struct {
	Rate           float64
	Changes        int
	Visible        string
	Focus          bool
	Screen, Failed string
}

// launchRecorded launches a browser that shows the page.
func (r *testWorker) launchRecorded(t *testing.T, site *recordedSite, headless bool, record string) workerapi.BrowserSession {
	t.Helper()
	s := r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q,"browser":{"headless":%t,"record":%s,"startUrls":[%q]}}`,
		r.cloud.Profile(r.version), headless, record, site.URL+"/page?password=secret"))
	select {
	case <-site.waiting:
	case <-time.After(30 * time.Second):
		t.Fatal("the page did not load")
	}
	return s
}

// awaitRecording waits until the recording of a session has ended.
func (r *testWorker) awaitRecording(t *testing.T, s workerapi.BrowserSession) workerapi.Recording {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		now := r.session(t, "GET", "/sessions/"+s.Id.String(), "")
		if now.Recording == nil {
			t.Fatal("the session has no recording")
		}
		if now.Recording.State != workerapi.RecordingStateRecording {
			return *now.Recording
		}
		if time.Now().After(deadline) {
			t.Fatalf("the recording does not end: %+v", now.Recording)
		}
	}
}

// TestRecording_Plays records a page, ends the browser, and plays the video in another one.
func TestRecording_Plays(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withFiles)
	for _, headless := range []bool{true, false} {
		t.Run(fmt.Sprintf("headless=%t", headless), func(t *testing.T) {
			site := newRecordedSite(t)
			s := r.launchRecorded(t, site, headless, `["video","events"]`)
			f := r.filesOfSession(t, s)
			if s.Recording == nil || !s.Recording.Video || !s.Recording.Events || s.Recording.State != workerapi.RecordingStateRecording || s.Recording.Reason != nil {
				t.Fatalf("at the start: %+v", s.Recording)
			}
			for _, path := range []string{"/recording", "/recording/events"} {
				if _, text := f.expect(409, "GET", path, ""); !strings.Contains(text, "still being recorded") {
					t.Errorf("got %s", text)
				}
			}
			testenv.Eventually(t, "the start of the encoder", func() bool {
				video, err := os.Stat(filepath.Join(r.directoryOf(s), recording.VideoName))
				return err == nil && video.Size() > 0
			})
			length := time.Duration(testenv.Depth(2, 30)) * time.Second
			time.Sleep(length) // the duration of the recording
			turned := time.Since(s.StartedAt)
			close(site.next)
			observation := report[observed](t, site)
			time.Sleep(length)
			total := time.Since(s.StartedAt)
			if headless {
				r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
			} else {
				r.crash(t, s)
			}
			got := r.awaitRecording(t, s)
			if got.State != workerapi.RecordingStateComplete || got.Bytes == 0 {
				t.Errorf("at the end: %+v", got)
			}
			played := r.play(t, site, s)
			ended := r.session(t, "GET", "/sessions/"+s.Id.String(), "").EndedAt.Sub(s.StartedAt)
			const frame = 0.2
			if d := played.Duration; d < total.Seconds()*0.98-frame || d > ended.Seconds()*1.02+frame || played.Width > 1280 || played.Width < 640 {
				t.Errorf("the video has %.2f s and %dx%d, the session %v", d, played.Width, played.Height, total)
			}
			path := filepath.Join(t.TempDir(), recording.VideoName)
			if err := os.WriteFile(path, []byte(site.video), 0o600); err != nil {
				t.Fatal(err)
			}
			before, after := recordingtest.ColourAt(t, path, turned-length/2), recordingtest.ColourAt(t, path, turned+length/2)
			if !recordingtest.IsRed(before) || !recordingtest.IsBlue(after) {
				t.Errorf("the colours are %v and %v, want red and blue", before, after)
			}
			t.Logf("video %.2f s, session %.2f to %.2f s, %d bytes, %d dropped, page %+v", played.Duration, total.Seconds(), ended.Seconds(), got.Bytes, got.DroppedFrames, observation)
			for line := range strings.Lines(r.log.String()) {
				if strings.Contains(line, "recording ended") && strings.Contains(line, s.Id.String()) {
					t.Log(strings.TrimSpace(line)) // with the processor time of the encoder
				}
			}
			if observation.Changes > 0 || observation.Visible != "visible" || !observation.Focus {
				t.Errorf("the page observes %+v", observation)
			}
			r.checkEvents(t, f, site)
		})
	}
}

// directoryOf returns the directory of the recording of a session.
func (r *testWorker) directoryOf(s workerapi.BrowserSession) string {
	return filepath.Join(r.config.DataDir, "files", s.LaunchId.String(), "recording")
}

// crash crashes a browser.
func (r *testWorker) crash(t *testing.T, s workerapi.BrowserSession) {
	t.Helper()
	socket, err := ws.Dial(t.Context(), *s.WebSocketDebuggerUrl, nil, ws.Options{})
	if err != nil {
		t.Fatal(err)
	}
	conn := cdp.OverWebSocket(socket)
	defer conn.Close()
	if _, err := conn.Send(t.Context(), "", "Browser.crash", nil); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the crash", func() bool {
		now := r.session(t, "GET", "/sessions/"+s.Id.String(), "")
		return now.EndReason != nil && *now.EndReason == "crash"
	})
}

type playback struct {
	Error         string
	Duration      float64
	Width, Height int
}

// play plays the video of a session in another browser.
func (r *testWorker) play(t *testing.T, site *recordedSite, s workerapi.BrowserSession) playback {
	t.Helper()
	f := r.filesOfSession(t, s)
	answer, video := f.expect(200, "GET", "/recording", "")
	if answer.Header.Get("Content-Type") != "video/webm" || answer.Header.Get("Accept-Ranges") != "bytes" {
		t.Errorf("headers %v", answer.Header)
	}
	site.video = video
	player := r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q,"browser":{"startUrls":[%q]}}`,
		r.cloud.Profile(r.version), site.URL+"/player"))
	if player.Recording != nil {
		t.Error("a session without browser.record has a recording")
	}
	got := report[playback](t, site)
	r.session(t, "DELETE", "/sessions/"+player.Id.String(), "")
	if got.Error != "" {
		t.Fatalf("the video does not play: %s", got.Error)
	}
	return got
}

// checkEvents checks the events of the page, and parts of the video.
func (r *testWorker) checkEvents(t *testing.T, f filesOf, site *recordedSite) {
	t.Helper()
	answer, text := f.expect(200, "GET", "/recording/events", "", "Range", "bytes=0-1")
	if answer.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("headers %v", answer.Header)
	}
	for _, want := range []string{
		`"kind":"recording_started"`, `"kind":"tab_opened"`, `"kind":"navigation"`, `"url":"` + site.URL + `/page"`, `"kind":"console"`, `"text":"ready"`,
		`"kind":"request"`, `"url":"` + site.URL + `/missing"`, `"kind":"recording_ended"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the events lack %s:\n%s", want, text)
		}
	}
	if strings.Contains(text, "secret") {
		t.Errorf("the events contain a secret:\n%s", text)
	}
	if _, part := f.expect(206, "GET", "/recording", "", "Range", "bytes=0-3"); part != "\x1a\x45\xdf\xa3" {
		t.Errorf("the video begins with %x", part)
	}
	f.expect(416, "GET", "/recording", "", "Range", "bytes=99999999999-")
	f.expect(404, "GET", "/files", "") // only the recording is kept
}

// TestRecording_OutlivesWorker shuts the worker down while it records.
func TestRecording_OutlivesWorker(t *testing.T) {
	r, site := startTestWorker(t, cloudtest.New(t), withFiles), newRecordedSite(t)
	s := r.launchRecorded(t, site, true, `["video","events"]`)
	eventsOnly := r.launchRecorded(t, site, true, `["events"]`)
	time.Sleep(time.Second) // the duration of the recording
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r.start(t)
	played := r.play(t, site, s)
	if played.Duration < 1 {
		t.Errorf("the video has %v s", played.Duration)
	}
	f := r.filesOfSession(t, eventsOnly)
	f.expect(200, "GET", "/recording/events", "")
	f.expect(404, "GET", "/recording", "")
	missing := filesOf{r, t, "/sessions/0198a5c0-0000-7000-8000-000000000000", f.token}
	missing.expect(404, "GET", "/recording", "")
	missing.expect(404, "GET", "/recording/events", "")
	for _, path := range []string{"/recording", "/recording/events"} {
		filesOf{r, t, "/sessions/none", f.token}.expect(400, "GET", path, "")
		filesOf{r, t, f.base, nil}.expect(401, "GET", path, "")
	}
}

func TestRecording_EndsAtQuota(t *testing.T) {
	r, site := startTestWorker(t, cloudtest.New(t), withFiles), newRecordedSite(t)
	s := r.launchRecorded(t, site, true, `["video"]`)
	time.Sleep(time.Second) // the duration of the recording
	if err := os.WriteFile(filepath.Join(r.directoryOf(s), "filler"), make([]byte, 17<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	got := r.awaitRecording(t, s)
	if got.State != workerapi.RecordingStateIncomplete || got.Reason == nil || *got.Reason != workerapi.RecordingReasonQuotaExceeded {
		t.Errorf("got %+v", got)
	}
	if played := r.play(t, site, s); played.Duration < 1 {
		t.Errorf("the video has %v s", played.Duration)
	}
	if now := r.session(t, "GET", "/sessions/"+s.Id.String(), ""); now.Status != "running" {
		t.Errorf("the session is %s", now.Status)
	}
}

func TestRecording_RefusesWhatIsImpossible(t *testing.T) {
	for _, tc := range []struct {
		record, want string
		change       func(*app.Config)
	}{
		{`["video"]`, "FILES_RETENTION", func(c *app.Config) { c.FilesRetention = 0 }},
		{`["events"]`, "FILES_RETENTION", func(c *app.Config) { c.FilesRetention = 0 }},
		{`["video","events"]`, "ffmpeg", withFiles},
	} {
		r := startTestWorker(t, cloudtest.New(t), tc.change)
		body := fmt.Sprintf(`{"profileId":%q,"browser":{"record":%s}}`, r.cloud.Profile(r.version), tc.record)
		t.Setenv("PATH", t.TempDir())
		status, text := r.call(t.Context(), t, "POST", "/sessions/profile", body, "X-API-Key", workerKey)
		got := decode[failure](t, text)
		if status != 400 || len(got.Error.Details) != 1 || got.Error.Details[0].Field != "browser.record" || !strings.Contains(got.Error.Details[0].Message, tc.want) {
			t.Errorf("%s: got %d %s", tc.record, status, text)
		}
	}
}
