package recording_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/media/recording"
	"github.com/browser-svc/svc/worker/internal/media/recording/recordingtest"
)

// countedStarts counts the processes that it starts for conversions.
type countedStarts struct{ conversions atomic.Int32 }

func (c *countedStarts) start(ctx context.Context, command recording.Command) (recording.Process, error) {
	c.conversions.Add(1)
	return recordingtest.StartProcess(ctx, command)
}

// recordVideo records a short video of one colour.
func (r *recorded) recordVideo(t *testing.T) {
	t.Helper()
	size := image.Pt(320, 200)
	r.subject.Pictures = func(ctx context.Context, show func(recording.Picture)) error {
		show(recording.Picture{Size: size, Data: bytes.Repeat([]byte{0, 0, 0xFF, 0}, size.X*size.Y)})
		<-ctx.Done()
		return ctx.Err()
	}
	r.start(t)
	testenv.Eventually(t, "the video", func() bool {
		info, _ := r.Info(r.subject.Session)
		return info.Bytes > 0
	})
	if _, err := r.OpenMP4(t.Context(), t.Context(), r.subject.Session); !errors.Is(err, recording.ErrRunning) {
		t.Errorf("while it is recorded: %v", err)
	}
	if _, err := r.Stop(t.Context(), r.subject.Session); err != nil {
		t.Fatal(err)
	}
}

func TestMP4_IsConvertedOnce(t *testing.T) {
	var starts countedStarts
	r := newRecorded(t, func(o *recording.Options) { o.StartProcess = starts.start })
	r.recordVideo(t)
	var contents [4]recording.Content
	errs := make(chan error, len(contents))
	for i := range contents {
		go func() {
			var err error
			contents[i], err = r.OpenMP4(t.Context(), t.Context(), r.subject.Session)
			errs <- err
		}()
	}
	for range contents {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	for _, content := range contents {
		if content.Size() == 0 {
			t.Error("the video is empty")
		}
		_ = content.Close()
	}
	if n := starts.conversions.Load(); n != 1 {
		t.Errorf("%d conversions", n)
	}
	path := filepath.Join(r.subject.Dir, recording.MP4Name)
	if got := recordingtest.ColourAt(t, path, 0); !recordingtest.IsRed(got) {
		t.Errorf("the colour is %v", got)
	}
	probe, err := exec.CommandContext(t.Context(), "ffprobe", "-v", "error", "-show_entries", "stream=codec_name,pix_fmt", "-of", "csv=p=0", path).CombinedOutput()
	if err != nil || strings.TrimSpace(string(probe)) != "h264,yuv420p" {
		t.Errorf("%s: %v", probe, err)
	}
	left, _ := filepath.Glob(filepath.Join(r.subject.Dir, "*.new"))
	if len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestMP4_ReportsFailures(t *testing.T) {
	r := newRecorded(t)
	if _, err := r.OpenMP4(t.Context(), t.Context(), r.subject.Session); !errors.Is(err, recording.ErrNone) {
		t.Errorf("before the recording: %v", err)
	}
	r.recordVideo(t)
	t.Setenv("PATH", t.TempDir())
	if _, err := r.OpenMP4(t.Context(), t.Context(), r.subject.Session); !errors.Is(err, recording.ErrNoFFmpeg) {
		t.Errorf("without ffmpeg: %v", err)
	}
	failing := recording.New(recording.Options{Dir: r.Dir, StartProcess: recordingtest.StartProcess, FFmpeg: "/bin/false"})
	defer failing.Close()
	if _, err := failing.OpenMP4(t.Context(), t.Context(), r.subject.Session); !errors.Is(err, recording.ErrConversion) {
		t.Errorf("a failing ffmpeg: %v", err)
	}
	slow := filepath.Join(t.TempDir(), "ffmpeg")
	if err := os.WriteFile(slow, []byte("#!/bin/sh\nexec /bin/sleep 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	hanging := recording.New(recording.Options{Dir: r.Dir, StartProcess: recordingtest.StartProcess, FFmpeg: slow})
	now, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := hanging.OpenMP4(t.Context(), now, r.subject.Session); !errors.Is(err, recording.ErrConverting) {
		t.Errorf("a conversion that takes longer: %v", err)
	}
	hanging.Close()
	if _, err := hanging.OpenMP4(t.Context(), t.Context(), r.subject.Session); err == nil {
		t.Error("converted after the end")
	}
}

// TestMP4_OfStoredRecording converts a stored video on one worker, and serves it from the store on another one without
// ffmpeg.
func TestMP4_OfStoredRecording(t *testing.T) {
	objects := newObjectStore(t)
	first := newStoring(t, objects.Bucket, testenv.PublicTempDir(t), owner)
	id, _ := first.record(t, owner)
	first.awaitStored(t, id)
	content, err := first.OpenMP4(t.Context(), t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	_ = content.Close()
	if left, err := filepath.Glob(filepath.Join(first.data, "journal", "*.new")); err != nil || len(left) > 0 {
		t.Errorf("left %v: %v", left, err)
	}
	t.Setenv("PATH", t.TempDir())
	second := newStoring(t, objects.Bucket, testenv.PublicTempDir(t), owner)
	if content, err = second.OpenMP4(t.Context(), t.Context(), id); err != nil {
		t.Fatal(err)
	}
	_ = content.Close()
	if got := second.read(t, id, recording.MP4Name, 4); !strings.HasPrefix(got, "ftyp") {
		t.Errorf("the video begins with %q", got[:10])
	}
}
