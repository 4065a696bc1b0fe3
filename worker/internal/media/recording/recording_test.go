package recording_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/media/har"
	"github.com/browser-svc/svc/worker/internal/media/recording"
	"github.com/browser-svc/svc/worker/internal/media/recording/recordingtest"
)

// recorded is a recording in a directory of the test.
type recorded struct {
	*recording.Service
	subject recording.Subject
	done    chan struct{}
}

func newRecorded(t *testing.T, change ...func(*recording.Options)) *recorded {
	t.Helper()
	dir := t.TempDir()
	o := recording.Options{Dir: func(uuid.UUID) (string, bool) { return dir, true }, StartProcess: recordingtest.StartProcess}
	for _, apply := range change {
		apply(&o)
	}
	r := &recorded{Service: recording.New(o), done: make(chan struct{})}
	t.Cleanup(r.Close)
	r.subject = recording.Subject{Session: uuid.New(), Dir: dir, Done: r.done, Video: true, StartProcess: recordingtest.StartProcess}
	r.subject.CheckSpace = func() recording.Reason { return "" }
	return r
}

// showPictures shows pictures of one colour until the recording ends.
func showPictures(size image.Point, every time.Duration) func(context.Context, func(recording.Picture)) error {
	return func(ctx context.Context, show func(recording.Picture)) error {
		pixels := make([]byte, 4*size.X*size.Y)
		for ctx.Err() == nil {
			show(recording.Picture{Size: size, Data: pixels})
			select {
			case <-time.After(every):
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	}
}

func (r *recorded) start(t *testing.T) {
	t.Helper()
	if err := r.Start(r.subject); err != nil {
		t.Fatal(err)
	}
}

// await waits until the recording has ended.
func (r *recorded) await(t *testing.T) recording.Info {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if info, ok := r.Info(r.subject.Session); ok && info.State != recording.Running {
			return info
		}
		if time.Now().After(deadline) {
			t.Fatal("the recording does not end")
		}
	}
}

// duration returns the duration of the video in its container.
func (r *recorded) duration(t *testing.T) time.Duration {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ffprobe", "-v", "error", "-show_entries", "format=duration", "-of", "csv=p=0",
		filepath.Join(r.subject.Dir, recording.VideoName)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	seconds, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(seconds * float64(time.Second))
}

func TestVideo_HasRealDuration(t *testing.T) {
	r := newRecorded(t)
	r.subject.Pictures = showPictures(image.Pt(641, 483), time.Hour) // one picture only
	r.start(t)
	if _, err := r.Open(t.Context(), r.subject.Session, recording.VideoName); !errors.Is(err, recording.ErrRunning) {
		t.Errorf("while it is recorded: %v", err)
	}
	time.Sleep(2 * time.Second) // the duration of the recording
	close(r.done)
	info := r.await(t)
	if info.State != recording.Complete || info.Bytes == 0 || info.Events || !info.Video {
		t.Fatalf("got %+v", info)
	}
	got := r.duration(t)
	if want := info.EndedAt.Sub(info.StartedAt); got < 2*time.Second || got > want+250*time.Millisecond {
		t.Errorf("the video lasts %v, the recording %v", got, want)
	}
	f, err := r.Open(t.Context(), r.subject.Session, recording.VideoName)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := r.Open(t.Context(), r.subject.Session, recording.EventsName); !errors.Is(err, recording.ErrMissing) {
		t.Errorf("events: %v", err)
	}
}

func TestVideo_EndsWithoutRoom(t *testing.T) {
	for _, reason := range []recording.Reason{recording.QuotaExceeded, recording.DiskFull} {
		r := newRecorded(t)
		r.subject.Pictures = showPictures(image.Pt(320, 200), 50*time.Millisecond)
		r.subject.CheckSpace = func() recording.Reason { return reason }
		r.start(t)
		if info := r.await(t); info.State != recording.Incomplete || info.Reason != reason {
			t.Errorf("got %+v", info)
		}
		if r.duration(t) < 500*time.Millisecond { // what was recorded is whole
			t.Errorf("%s: the video lasts %v", reason, r.duration(t))
		}
	}
}

func TestVideo_ReportsWhyThereIsNone(t *testing.T) {
	failing := filepath.Join(t.TempDir(), "ffmpeg")
	if err := os.WriteFile(failing, []byte("#!/bin/sh\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	broken := newRecorded(t, func(o *recording.Options) { o.FFmpeg = failing })
	broken.subject.Pictures = showPictures(image.Pt(320, 200), 50*time.Millisecond)
	broken.start(t) // the browser does not end
	if info := broken.await(t); info.State != recording.Failed || info.Reason != recording.EncoderFailed {
		t.Errorf("a failed encoder: %+v", info)
	}
	partly := newRecorded(t, func(o *recording.Options) { o.FFmpeg = failing })
	partly.subject.Pictures = showPictures(image.Pt(320, 200), 50*time.Millisecond)
	partly.subject.Events = func(ctx context.Context, _ func(recording.Event)) error {
		<-ctx.Done()
		return ctx.Err()
	}
	partly.start(t)
	testenv.Eventually(t, "the failure of the encoder", func() bool {
		info, _ := partly.Info(partly.subject.Session)
		return info.State == recording.Running && info.Reason == recording.EncoderFailed
	})
	close(partly.done)
	if info := partly.await(t); info.State != recording.Incomplete || info.Reason != recording.EncoderFailed {
		t.Errorf("events without the video: %+v", info)
	}
	dark := newRecorded(t)
	dark.subject.Pictures = func(context.Context, func(recording.Picture)) error { return errors.New("no display") }
	dark.start(t)
	close(dark.done)
	if info := dark.await(t); info.State != recording.Failed || info.Reason != recording.NoPicture {
		t.Errorf("without a picture: %+v", info)
	}
	if _, err := dark.Open(t.Context(), dark.subject.Session, recording.VideoName); !errors.Is(err, recording.ErrMissing) {
		t.Errorf("without a picture: %v", err)
	}
}

// slowFFmpeg returns an ffmpeg that starts 1.5 seconds late.
func slowFFmpeg(t *testing.T) string {
	t.Helper()
	slow := filepath.Join(t.TempDir(), "ffmpeg")
	if err := os.WriteFile(slow, []byte("#!/bin/sh\n/bin/sleep 1.5\nexec "+find(t, "ffmpeg")+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return slow
}

// TestVideo_CountsDroppedFrames records with an encoder that is too slow.
func TestVideo_CountsDroppedFrames(t *testing.T) {
	slow := slowFFmpeg(t)
	r := newRecorded(t, func(o *recording.Options) { o.FFmpeg = slow })
	r.subject.Pictures = showPictures(image.Pt(640, 480), 50*time.Millisecond)
	r.start(t)
	time.Sleep(3 * time.Second) // the duration of the recording
	close(r.done)
	info := r.await(t)
	if info.State != recording.Complete || info.DroppedFrames == 0 {
		t.Errorf("got %+v", info)
	}
	if got := r.duration(t); got < 3*time.Second { // the time does not shrink
		t.Errorf("the video lasts %v", got)
	}
}

// TestVideo_ShowsPicturesAtTheirTimes changes the picture while the encoder is too slow, and
// ends the browser before the encoder starts.
func TestVideo_ShowsPicturesAtTheirTimes(t *testing.T) {
	slow := slowFFmpeg(t)
	const frame = 200 * time.Millisecond
	size := image.Pt(1280, 720) // more than a pipe takes
	red, blue := []byte{0, 0, 0xFF, 0}, []byte{0xFF, 0, 0, 0}
	for name, changes := range map[string][]time.Duration{ // after the start, in milliseconds: red, blue, red, ... and the end
		"changed while the encoder starts":       {0, 1000, 2500},
		"first picture late":                     {1000, 2000, 3000},
		"ended while the encoder starts":         {0, 600, 1000},
		"changed twice while the encoder starts": {0, 600, 1200, 2500},
		"flickered while the encoder starts":     {0, 600, 1200, 1210, 1220, 1230, 2500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecorded(t, func(o *recording.Options) { o.FFmpeg = slow })
			var began time.Time
			r.subject.Pictures = func(ctx context.Context, show func(recording.Picture)) error {
				for i, change := range changes[:len(changes)-1] {
					time.Sleep(time.Until(began.Add(change * time.Millisecond)))
					show(recording.Picture{Size: size, Data: bytes.Repeat([][]byte{red, blue}[i%2], size.X*size.Y)})
				}
				<-ctx.Done()
				return ctx.Err()
			}
			began = time.Now()
			r.start(t)
			time.Sleep(time.Until(began.Add(changes[len(changes)-1] * time.Millisecond)))
			close(r.done)
			info := r.await(t)
			if got, want := r.duration(t), info.EndedAt.Sub(info.StartedAt); got < want-frame || got > want+2*frame {
				t.Errorf("the video lasts %v, the recording %v", got, want)
			}
			video := filepath.Join(r.subject.Dir, recording.VideoName)
			changes[0] = 0 // the first picture is repeated before its time
			for i := range len(changes) - 1 {
				start, end := changes[i]*time.Millisecond, changes[i+1]*time.Millisecond
				if end-start < 2*frame {
					continue
				}
				for _, moment := range []time.Duration{start + min(2*frame, (end-start)/2), end - min(2*frame, (end-start)/2)} {
					if got := recordingtest.ColourAt(t, video, moment); i%2 == 0 && !recordingtest.IsRed(got) || i%2 == 1 && !recordingtest.IsBlue(got) {
						t.Errorf("at %v: got %v, want picture %d", moment, got, i)
					}
				}
			}
		})
	}
}

// TestStop_CompletesRecording stops a recording while its browser runs.
func TestStop_CompletesRecording(t *testing.T) {
	r := newRecorded(t)
	if _, err := r.Stop(t.Context(), r.subject.Session); !errors.Is(err, recording.ErrNone) {
		t.Errorf("before the start: %v", err)
	}
	r.subject.Pictures = showPictures(image.Pt(320, 200), 50*time.Millisecond)
	r.start(t)
	if err := r.Start(r.subject); !errors.Is(err, recording.ErrExists) {
		t.Errorf("started again: %v", err)
	}
	testenv.Eventually(t, "the start of the encoder", func() bool {
		info, _ := r.Info(r.subject.Session)
		return info.Bytes > 0
	})
	info, err := r.Stop(t.Context(), r.subject.Session)
	if err != nil || info.State != recording.Complete || info.EndedAt.IsZero() || r.duration(t) <= 0 {
		t.Errorf("got %+v: %v", info, err)
	}
	if _, err := r.Stop(t.Context(), r.subject.Session); !errors.Is(err, recording.ErrNone) {
		t.Errorf("stopped again: %v", err)
	}
	if err := r.Start(r.subject); !errors.Is(err, recording.ErrExists) {
		t.Errorf("started after the end: %v", err)
	}
}

func find(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEvents_AreLinesWithoutSecrets(t *testing.T) {
	r := newRecorded(t)
	r.subject.Events = func(ctx context.Context, add func(recording.Event)) error {
		tabs := recording.NewTabs(add)
		tabs.Seen("one", "about:blank")
		tabs.Seen("one", "https://user:secret@example.com/path?q=secret#secret")
		tabs.Seen("one", "https://example.com/path?q=secret")
		tabs.Seen("one", "data:text/html,secret")
		tabs.Closed("one")
		tabs.Closed("other")
		add(recording.Event{At: time.Now(), Kind: "request", Text: "Failed to load https://example.com/a?token=secret (404)", URL: "https://example.com/a?token=secret"})
		add(recording.Event{At: time.Now(), Kind: "console", Text: strings.Repeat("ä", 10_000)})
		<-ctx.Done()
		return ctx.Err()
	}
	r.start(t)
	time.AfterFunc(200*time.Millisecond, func() { close(r.done) })
	if info := r.await(t); info.State != recording.Complete {
		t.Fatalf("got %+v", info)
	}
	f, err := r.Open(t.Context(), r.subject.Session, recording.EventsName)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for line := range strings.Lines(string(text)) {
		var e recording.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.AtMs < 0 || len(e.Text) > 5000 {
			t.Errorf("%v: %.200s", err, line)
		}
		if strings.Contains(line, "secret") {
			t.Errorf("a secret is recorded: %s", line)
		}
		kinds = append(kinds, string(e.Kind))
	}
	const want = "recording_started tab_opened navigation navigation navigation tab_closed request console recording_ended"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestRequests_EndWithTheFirstError stores an entry that is no JSON. The browser does not end.
func TestRequests_EndWithTheFirstError(t *testing.T) {
	r := newRecorded(t)
	r.subject.Video, r.subject.Requests = false, func(ctx context.Context, log *recording.RequestLog) error {
		log.Entry(har.Entry{Time: math.NaN()})
		<-ctx.Done()
		return ctx.Err()
	}
	r.start(t)
	if info := r.await(t); info.State != recording.Failed || info.Reason != recording.HARFailed {
		t.Errorf("got %+v", info)
	}
}

// TestInfo_OfKilledWorker reads a recording that its worker could not finish.
func TestInfo_OfKilledWorker(t *testing.T) {
	r := newRecorded(t)
	r.subject.Events = func(ctx context.Context, _ func(recording.Event)) error {
		<-ctx.Done()
		return ctx.Err()
	}
	r.start(t)
	after := recording.New(r.Options)
	defer after.Close()
	info, ok := after.Info(r.subject.Session)
	if !ok || info.State != recording.Incomplete || info.Reason != recording.Interrupted {
		t.Errorf("got %+v", info)
	}
}
