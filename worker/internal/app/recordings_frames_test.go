package app_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/media/recording"
	"github.com/browser-svc/svc/worker/internal/media/recording/recordingtest"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// TestRecording_FramesOfProfile records the frames of a page because its profile says so,
// headless and with a display, and nothing if the launch says so.
func TestRecording_FramesOfProfile(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withFiles)
	profile := r.cloud.Profile(r.version, func(c *cloudapi.ProfileConfig) { c.Record = sharedapi.RecordedParts{"frames"} })
	off := r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q,"browser":{"record":[]}}`, profile))
	if off.Recording != nil {
		t.Errorf("record []: %+v", off.Recording)
	}
	r.filesOfSession(t, off).expect(404, "GET", "/recording/frames", "")
	for _, headless := range []bool{true, false} {
		site := newRecordedSite(t)
		s := r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q,"browser":{"headless":%t,"startUrls":[%q]}}`, profile, headless, site.URL+"/page"))
		<-site.waiting
		f := r.filesOfSession(t, s)
		if s.Recording == nil || !s.Recording.Frames || s.Recording.Video || s.Recording.Events {
			t.Fatalf("headless=%t: %+v", headless, s.Recording)
		}
		f.expect(409, "GET", "/recording/frames", "")
		awaitFrame(t, r.directoryOf(s), recordingtest.IsRed)
		turned := time.Now()
		close(site.next)
		report[observed](t, site)
		awaitFrame(t, r.directoryOf(s), recordingtest.IsBlue)
		r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
		if got := r.awaitRecording(t, s); got.State != workerapi.RecordingStateComplete {
			t.Errorf("headless=%t: %+v", headless, got)
		}
		f.checkFrames(turned)
		f.expect(404, "GET", "/recording", "")
		filesOf{r, t, f.base, nil}.expect(401, "GET", "/recording/frames", "")
	}
	filesOf{r, t, "/sessions/none", []string{"X-API-Key", workerKey}}.expect(400, "GET", "/recording/frames", "")
}

// checkFrames checks that frames are red, then blue from a time on.
func (f filesOf) checkFrames(turned time.Time) {
	f.t.Helper()
	answer, text := f.expect(200, "GET", "/recording/frames", "")
	if answer.Header.Get("Content-Type") != "application/zip" || !strings.Contains(answer.Header.Get("Content-Disposition"), "frames.zip") {
		f.t.Errorf("headers %v", answer.Header)
	}
	archive, err := zip.NewReader(strings.NewReader(text), int64(len(text)))
	if err != nil {
		f.t.Fatal(err)
	}
	index, err := fs.ReadFile(archive, "frames.jsonl")
	if err != nil {
		f.t.Fatal(err)
	}
	var red, blue int
	for line := range bytes.Lines(index) {
		frame := decode[struct {
			File          string
			At            time.Time
			Width, Height int
		}](f.t, line)
		opened, err := archive.Open(frame.File)
		if err != nil {
			f.t.Fatal(err)
		}
		picture, err := jpeg.Decode(opened)
		if err != nil || picture.Bounds().Size() != image.Pt(frame.Width, frame.Height) || frame.Width < 640 {
			f.t.Fatalf("%+v: %v", frame, err)
		}
		switch {
		case recordingtest.IsRed(centre(picture)) && blue == 0:
			red++
		case recordingtest.IsBlue(centre(picture)) && frame.At.After(turned):
			blue++
		}
	}
	if red == 0 || blue == 0 {
		f.t.Errorf("%d red and %d blue frames of %d", red, blue, len(archive.File)-1)
	}
}

// awaitFrame waits until the last frame of a running recording is of a colour.
func awaitFrame(t *testing.T, directory string, is func(color.Color) bool) {
	t.Helper()
	testenv.Eventually(t, "the frame", func() bool {
		index, err := os.ReadFile(filepath.Join(directory, recording.FrameIndexName))
		if err != nil || len(index) == 0 || index[len(index)-1] != '\n' {
			return false
		}
		lines := bytes.Split(bytes.TrimSpace(index), []byte{'\n'})
		size := decode[recording.Frame](t, lines[len(lines)-1]).Bytes
		frames, err := os.ReadFile(filepath.Join(directory, recording.FramesName))
		if err != nil {
			t.Fatal(err)
		}
		last, err := jpeg.Decode(bytes.NewReader(frames[len(frames)-size:]))
		return err == nil && is(centre(last)) // an error: a frame was added meanwhile
	})
}

// centre returns the colour of a point of the page, also below the tabs of a window.
func centre(picture image.Image) color.Color {
	size := picture.Bounds().Size()
	return picture.At(size.X/2, size.Y*2/3)
}
