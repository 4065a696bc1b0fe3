package recording

import (
	"context"
	"errors"
	"fmt"
	"image"
	"os"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	writeTimeout  = 10 * time.Second // of a frame
	finishTimeout = 15 * time.Second // of the end of a video
	pipeSize      = 1 << 20          // bytes
)

// FindFFmpeg returns the path of ffmpeg, or an error that says what to do.
func FindFFmpeg() (string, error) {
	path, err := exec.LookPath("ffmpeg")
	if err != nil {
		return "", ErrNoFFmpeg
	}
	return path, nil
}

// ffmpeg returns the path of ffmpeg.
func (s *Service) ffmpeg() (string, error) {
	if s.FFmpeg != "" {
		return s.FFmpeg, nil
	}
	return FindFFmpeg()
}

// Command is a run of ffmpeg, which reads descriptor 3, In, and writes the file of descriptor 4, Out.
type Command struct {
	Program   string
	Args      []string
	In, Out   *os.File
	MaxOutput int64 // size limit of Out, in bytes; 0 is unlimited
}

// The descriptors of a Command as ffmpeg opens them. It needs no access to the directory of the file.
const (
	input  = "pipe:3"
	output = "/proc/self/fd/4"
)

// Process is a running Command.
type Process interface {
	Done() <-chan struct{} // closed when it has ended
	Kill()
	Err() error         // why it has failed, after Done; nil if it has not
	CPU() time.Duration // its processor time, after Done
}

// StartProcess starts a command. The pictures come from a browser, so the process must reach nothing but its files.
type StartProcess func(ctx context.Context, c Command) (Process, error)

// encoder is an ffmpeg process that writes a video.
type encoder struct {
	Process
	input  *os.File
	size   image.Point // of all raw pictures
	jpeg   bool
	fitted []byte
}

// startEncoder starts to encode pictures like the first one to a file, which must not exist.
func (r *recorder) startEncoder(ctx context.Context, path string, first Picture) (_ *encoder, err error) {
	ffmpeg, err := r.service.ffmpeg()
	if err != nil {
		return nil, err
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	// A larger pipe saves switches between the processes. The kernel may refuse it to an unprivileged worker.
	_, _ = unix.FcntlInt(read.Fd(), unix.F_SETPIPE_SZ, pipeSize)
	e := &encoder{input: write, size: first.Size, jpeg: first.JPEG}
	ctx = context.WithoutCancel(ctx) // the browser may have ended, but the video must have its last picture
	if e.Process, err = r.subject.StartProcess(ctx, Command{Program: ffmpeg, Args: arguments(first), In: read, Out: out}); err != nil {
		_ = write.Close()
		return nil, err
	}
	return e, nil
}

// arguments returns the arguments of ffmpeg.
func arguments(first Picture) []string {
	size := videoSize(first.Size)
	source := []string{"-f", "rawvideo", "-pixel_format", "bgr0", "-video_size", fmt.Sprintf("%dx%d", first.Size.X, first.Size.Y)}
	if first.JPEG {
		source = []string{"-f", "mjpeg"}
	}
	args := append([]string{"-nostdin", "-hide_banner", "-loglevel", "error", "-y", "-threads", "1", "-filter_threads", "1"}, source...)
	filter := fmt.Sprintf("scale=%d:%d:force_original_aspect_ratio=decrease:flags=fast_bilinear,pad=%d:%d:(ow-iw)/2:(oh-ih)/2,setsar=1,format=yuv420p",
		size.X, size.Y, size.X, size.Y)
	rate := strconv.Itoa(frameRate)
	return append(args, "-framerate", rate, "-i", input, "-an", "-vf", filter, "-r", rate, "-threads", "1",
		"-c:v", "libvpx", "-deadline", "realtime", "-cpu-used", "8", "-lag-in-frames", "0", "-static-thresh", "100",
		"-b:v", "800k", "-g", strconv.Itoa(10*frameRate), "-flush_packets", "1", "-f", "webm", output)
}

// videoSize returns the size of a video: at most MaxWidth wide, and even.
func videoSize(p image.Point) image.Point {
	if p.X > MaxWidth {
		p = image.Pt(MaxWidth, p.Y*MaxWidth/p.X)
	}
	return image.Pt(max(p.X&^1, 2), max(p.Y&^1, 2))
}

// write gives the encoder a frame.
func (e *encoder) write(p Picture) error {
	data := p.Data
	if !e.jpeg && p.Size != e.size {
		data = e.fit(p)
	}
	if err := e.input.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := e.input.Write(data)
	return err
}

// fit cuts or pads pixels to the size of the first picture.
func (e *encoder) fit(p Picture) []byte {
	e.fitted = append(e.fitted[:0], make([]byte, 4*e.size.X*e.size.Y)...)
	width := 4 * min(e.size.X, p.Size.X)
	for y := range min(e.size.Y, p.Size.Y) {
		copy(e.fitted[4*y*e.size.X:][:width], p.Data[4*y*p.Size.X:])
	}
	return e.fitted
}

// finish ends the video and the process.
func (e *encoder) finish() error {
	_ = e.input.Close()
	select {
	case <-e.Done():
		return e.Err()
	case <-time.After(finishTimeout):
		e.Kill()
		<-e.Done()
		return errors.Join(errors.New("ffmpeg did not end in time"), e.Err())
	}
}
