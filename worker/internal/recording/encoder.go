package recording

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	writeTimeout  = 10 * time.Second // of a frame
	finishTimeout = 15 * time.Second // of the end of a video
	niceness      = 10
	maxMemory     = 2 << 30 // bytes of address space
	pipeSize      = 1 << 20 // bytes
	maxMessages   = 4 << 10 // bytes of the encoder's last messages
	nobody        = 65534   // user and group of the encoder if the worker is root
)

// FindFFmpeg returns the path of ffmpeg, or an error that says what to do.
func FindFFmpeg() (string, error) {
	path, err := exec.LookPath("ffmpeg")
	if err != nil {
		return "", errors.New("this worker has no ffmpeg in its PATH")
	}
	return path, nil
}

// encoder is an ffmpeg process that writes a video.
type encoder struct {
	cmd      *exec.Cmd
	in       *os.File
	size     image.Point // of all raw pictures
	jpeg     bool
	fitted   []byte
	messages *tail
	exited   chan error
}

// startEncoder starts to encode pictures like the first one to a file, which must not
// exist.
func startEncoder(ffmpeg, path string, first Picture) (_ *encoder, err error) {
	if ffmpeg == "" {
		if ffmpeg, err = FindFFmpeg(); err != nil {
			return nil, err
		}
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	read, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	// Fewer switches between the processes for a raw picture of megabytes; an unprivileged worker may be refused.
	_, _ = unix.FcntlInt(read.Fd(), unix.F_SETPIPE_SZ, pipeSize)
	e := &encoder{in: in, size: first.Size, jpeg: first.JPEG, messages: &tail{limit: maxMessages}, exited: make(chan error, 1)}
	// The kernel reopens the file of this descriptor: the encoder needs no access to its directory.
	e.cmd = exec.Command(ffmpeg, arguments(first, "/proc/self/fd/3")...) //nolint:noctx // finish ends it
	e.cmd.Env, e.cmd.Dir, e.cmd.Stdin, e.cmd.Stderr, e.cmd.ExtraFiles = []string{"LC_ALL=C"}, "/", read, e.messages, []*os.File{out}
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 && out.Chown(nobody, nobody) == nil { // the pictures come from a browser
		e.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	if err := e.cmd.Start(); err != nil {
		_ = in.Close()
		return nil, err
	}
	e.limit()
	go func() { e.exited <- e.cmd.Wait() }()
	return e, nil
}

// limit bounds the resources of the process.
func (e *encoder) limit() {
	pid := e.cmd.Process.Pid
	// They fail if the process has ended, which finish reports.
	_ = unix.Setpriority(unix.PRIO_PROCESS, pid, niceness)
	_ = unix.Prlimit(pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: maxMemory, Max: maxMemory}, nil)
	_ = unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
}

// arguments returns the arguments of ffmpeg.
func arguments(first Picture, out string) []string {
	size := videoSize(first.Size)
	input := []string{"-f", "rawvideo", "-pixel_format", "bgr0", "-video_size", fmt.Sprintf("%dx%d", first.Size.X, first.Size.Y)}
	if first.JPEG {
		input = []string{"-f", "mjpeg"}
	}
	args := append([]string{"-nostdin", "-hide_banner", "-loglevel", "error", "-y", "-threads", "1", "-filter_threads", "1"}, input...)
	filter := fmt.Sprintf("scale=%d:%d:force_original_aspect_ratio=decrease:flags=fast_bilinear,pad=%d:%d:(ow-iw)/2:(oh-ih)/2,setsar=1,format=yuv420p",
		size.X, size.Y, size.X, size.Y)
	rate := strconv.Itoa(frameRate)
	return append(args, "-framerate", rate, "-i", "pipe:0", "-an", "-vf", filter, "-r", rate, "-threads", "1",
		"-c:v", "libvpx", "-deadline", "realtime", "-cpu-used", "8", "-lag-in-frames", "0", "-static-thresh", "100",
		"-b:v", "800k", "-g", strconv.Itoa(10*frameRate), "-flush_packets", "1", "-f", "webm", out)
}

// videoSize returns the size of a video: at most MaxWidth wide, and even.
func videoSize(of image.Point) image.Point {
	if of.X > MaxWidth {
		of = image.Pt(MaxWidth, of.Y*MaxWidth/of.X)
	}
	return image.Pt(max(of.X&^1, 2), max(of.Y&^1, 2))
}

// write gives the encoder a frame.
func (e *encoder) write(p Picture) error {
	data := p.Data
	if !e.jpeg && p.Size != e.size {
		data = e.fit(p)
	}
	if err := e.in.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := e.in.Write(data)
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
	_ = e.in.Close()
	select {
	case err := <-e.exited:
		return e.describe(err)
	case <-time.After(finishTimeout):
		_ = e.cmd.Process.Kill()
		<-e.exited //nolint:errcheck // it was killed
		return e.describe(errors.New("it did not end in time"))
	}
}

// cpu returns the processor time of the ended process.
func (e *encoder) cpu() time.Duration {
	return e.cmd.ProcessState.UserTime() + e.cmd.ProcessState.SystemTime()
}

func (e *encoder) describe(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", err, strings.TrimSpace(e.messages.String()))
}

// tail keeps the end of what is written.
type tail struct {
	limit int
	bytes.Buffer
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	n, _ := t.Buffer.Write(p)
	t.Next(max(t.Len()-t.limit, 0))
	return n, nil
}
