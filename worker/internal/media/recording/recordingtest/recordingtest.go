// Package recordingtest looks at the frames of recorded videos, and starts encoders without a sandbox.
package recordingtest

import (
	"bytes"
	"context"
	"fmt"
	"image/color"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/media/recording"
)

// process is a program that is not isolated.
type process struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	done   chan struct{}
	err    error
}

// StartProcess implements recording.StartProcess.
func StartProcess(_ context.Context, c recording.Command) (recording.Process, error) {
	p := &process{cmd: exec.Command(c.Program, c.Args...), done: make(chan struct{})} //nolint:noctx // the recording ends it
	p.cmd.Stderr, p.cmd.ExtraFiles = &p.stderr, []*os.File{c.In, c.Out}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		if err := p.cmd.Wait(); err != nil {
			p.err = fmt.Errorf("%w: %s", err, &p.stderr)
		}
	}()
	return p, nil
}

// Done implements recording.Process.
func (p *process) Done() <-chan struct{} { return p.done }

// Kill implements recording.Process.
func (p *process) Kill() { _ = p.cmd.Process.Kill() }

// Err implements recording.Process.
func (p *process) Err() error { return p.err }

// CPU implements recording.Process.
func (p *process) CPU() time.Duration { return p.cmd.ProcessState.UserTime() }

// ColourAt returns the colour of a point of the video in a file, below the tabs of a window.
func ColourAt(t *testing.T, path string, offset time.Duration) color.Color {
	t.Helper()
	got, err := exec.CommandContext(t.Context(), "ffmpeg", "-nostdin", "-loglevel", "error", "-ss", fmt.Sprintf("%.3f", offset.Seconds()), "-i", path,
		"-frames:v", "1", "-vf", "crop=2:2:iw/2:ih*2/3", "-f", "rawvideo", "-pix_fmt", "rgb24", "-").Output()
	if err != nil || len(got) < 3 {
		t.Fatalf("the frame at %v: %d bytes, %v", offset, len(got), err)
	}
	return color.RGBA{R: got[0], G: got[1], B: got[2], A: 0xFF}
}

// IsRed reports whether a colour is red, as far as a codec keeps it.
func IsRed(c color.Color) bool {
	red, _, blue, _ := c.RGBA()
	return red>>8 > 180 && blue>>8 < 80
}

// IsBlue reports whether a colour is blue, as far as a codec keeps it.
func IsBlue(c color.Color) bool {
	red, _, blue, _ := c.RGBA()
	return blue>>8 > 180 && red>>8 < 80
}
