// Package recordingtest looks at the frames of recorded videos.
package recordingtest

import (
	"fmt"
	"image/color"
	"os/exec"
	"testing"
	"time"
)

// ColourAt returns the colour of a point of the video in a file, below the tabs of a window.
func ColourAt(t *testing.T, path string, at time.Duration) color.Color {
	t.Helper()
	got, err := exec.CommandContext(t.Context(), "ffmpeg", "-nostdin", "-loglevel", "error", "-ss", fmt.Sprintf("%.3f", at.Seconds()), "-i", path,
		"-frames:v", "1", "-vf", "crop=2:2:iw/2:ih*2/3", "-f", "rawvideo", "-pix_fmt", "rgb24", "-").Output()
	if err != nil || len(got) < 3 {
		t.Fatalf("the frame at %v: %d bytes, %v", at, len(got), err)
	}
	return color.RGBA{R: got[0], G: got[1], B: got[2], A: 0xFF}
}

// IsRed reports whether a colour is red, as far as a codec keeps it.
func IsRed(of color.Color) bool {
	red, _, blue, _ := of.RGBA()
	return red>>8 > 180 && blue>>8 < 80
}

// IsBlue reports whether a colour is blue, as far as a codec keeps it.
func IsBlue(of color.Color) bool {
	red, _, blue, _ := of.RGBA()
	return blue>>8 > 180 && red>>8 < 80
}
