package recording_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/media/recording"
)

// colours are blue, green, red and an unused byte, and what they look like.
var colours = []struct {
	pixel []byte
	want  color.RGBA
}{
	{[]byte{0, 0, 250, 0}, color.RGBA{R: 250}}, {[]byte{250, 0, 0, 0}, color.RGBA{B: 250}}, {[]byte{0, 250, 0, 0}, color.RGBA{G: 250}},
}

// showColours shows each colour several times, then keeps the last one.
func showColours(size image.Point, progress chan<- int) func(context.Context, func(recording.Picture)) error {
	return func(ctx context.Context, show func(recording.Picture)) error {
		for i := range colours {
			for range 5 {
				show(recording.Picture{Size: size, Data: bytes.Repeat(colours[i].pixel, size.X*size.Y)})
				time.Sleep(100 * time.Millisecond) // as a browser does
			}
			progress <- i
		}
		<-ctx.Done()
		return ctx.Err()
	}
}

// unzip returns the index and the frames of an ended recording.
func (r *recorded) unzip(t *testing.T) (index []recording.Frame, frames []image.Image) {
	t.Helper()
	source, err := r.OpenFrames(t.Context(), r.subject.Session)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	var raw bytes.Buffer
	if err := source.WriteZip(&raw); err != nil {
		t.Fatal(err)
	}
	archive, err := zip.NewReader(bytes.NewReader(raw.Bytes()), int64(raw.Len()))
	if err != nil || len(archive.File) == 0 || archive.File[0].Name != "frames.jsonl" {
		t.Fatalf("got %+v: %v", archive, err)
	}
	for i, f := range archive.File {
		opened, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(opened)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			for line := range strings.Lines(string(content)) {
				var frame recording.Frame
				if err := json.Unmarshal([]byte(line), &frame); err != nil {
					t.Fatal(err)
				}
				index = append(index, frame)
			}
			continue
		}
		if f.Name != index[i-1].File || len(content) != index[i-1].Bytes {
			t.Errorf("file %s with %d bytes, index %+v", f.Name, len(content), index[i-1])
		}
		frame, err := jpeg.Decode(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, frame)
	}
	return index, frames
}

// TestFrames_HasEachPictureOnce records frames without a video, so ffmpeg is not needed.
func TestFrames_HasEachPictureOnce(t *testing.T) {
	r := newRecorded(t, func(o *recording.Options) { o.FFmpeg = "/none" })
	progress := make(chan int, len(colours))
	r.subject.Video, r.subject.Frames, r.subject.Pictures = false, true, showColours(image.Pt(64, 48), progress)
	r.start(t)
	for range colours {
		<-progress
	}
	close(r.done)
	if info := r.await(t); info.State != recording.Complete || info.Video || !info.Frames || info.Bytes == 0 {
		t.Fatalf("got %+v", info)
	}
	index, frames := r.unzip(t)
	if len(frames) != len(colours) {
		t.Fatalf("%d frames, want %d: %+v", len(frames), len(colours), index)
	}
	for i, frame := range frames {
		red, green, blue, _ := frame.At(10, 10).RGBA()
		got, want := []int{int(red >> 8), int(green >> 8), int(blue >> 8)}, colours[i].want
		for j, channel := range []uint8{want.R, want.G, want.B} {
			if d := got[j] - int(channel); d > 25 || d < -25 {
				t.Errorf("frame %d has the colour %v, want %v", i, got, want)
			}
		}
		entry := index[i]
		if entry.Width != 64 || entry.Height != 48 || i > 0 && entry.AtMs < index[i-1].AtMs+250 {
			t.Errorf("index %+v", entry)
		}
	}
	if _, err := r.Open(t.Context(), r.subject.Session, recording.VideoName); !errors.Is(err, recording.ErrMissing) {
		t.Errorf("the video: %v", err)
	}
}

// TestFrames_OfKilledWorker reads frames whose index and data end in the middle.
func TestFrames_OfKilledWorker(t *testing.T) {
	r := newRecorded(t)
	progress := make(chan int, len(colours))
	r.subject.Frames, r.subject.Pictures = true, showColours(image.Pt(64, 48), progress)
	r.start(t)
	for range colours {
		<-progress
	}
	close(r.done)
	r.await(t)
	name := filepath.Join(r.subject.Dir, recording.FrameIndexName)
	index, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, index[:len(index)-5], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, frames := r.unzip(t); len(frames) != len(colours)-1 {
		t.Errorf("%d frames of a short index", len(frames))
	}
	if err := os.Truncate(filepath.Join(r.subject.Dir, recording.FramesName), 700); err != nil {
		t.Fatal(err)
	}
	if _, frames := r.unzip(t); len(frames) > 1 {
		t.Errorf("%d frames of short data", len(frames))
	}
}

func TestFrames_ReportWhyThereAreNone(t *testing.T) {
	dark := newRecorded(t)
	dark.subject.Video, dark.subject.Frames = false, true
	dark.subject.Pictures = func(context.Context, func(recording.Picture)) error { return errors.New("no display") }
	dark.start(t)
	close(dark.done)
	if info := dark.await(t); info.State != recording.Failed || info.Reason != recording.NoPicture {
		t.Errorf("without a picture: %+v", info)
	}
	if _, err := dark.OpenFrames(t.Context(), dark.subject.Session); !errors.Is(err, recording.ErrMissing) {
		t.Errorf("without a picture: %v", err)
	}
	failing := newRecorded(t)
	failing.subject.Video, failing.subject.Frames, failing.subject.Pictures = false, true, showPictures(image.Pt(64, 48), 50*time.Millisecond)
	if err := os.Mkdir(filepath.Join(failing.subject.Dir, recording.FramesName), 0o700); err != nil {
		t.Fatal(err)
	}
	failing.start(t) // the browser does not end
	if info := failing.await(t); info.State != recording.Incomplete || info.Reason != recording.FramesFailed {
		t.Errorf("without a file: %+v", info)
	}
}
