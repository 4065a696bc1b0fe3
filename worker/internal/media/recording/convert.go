package recording

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"gocloud.dev/blob"
)

// MP4Name is the video for players without WebM. It is created by the first request for it.
const MP4Name = "video.mp4"

const (
	conversionTimeout = 30 * time.Minute
	// maxGrowth and minOutput limit an MP4, relative to the WebM of the same video.
	maxGrowth = 4
	minOutput = 16 << 20 // bytes
)

// Errors of OpenMP4.
var (
	ErrConverting = errors.New("recording: the video is still being converted")
	ErrConversion = errors.New("recording: the video could not be converted")
)

// conversion is a conversion that runs or waits for its turn.
type conversion struct {
	done chan struct{} // closed when err is set
	err  error
}

// OpenMP4 opens the video as MP4 (H.264). ctx bounds the reads too. The first call converts the video; when wait ends
// first, the conversion continues. Errors: those of Open, ErrNoFFmpeg, ErrConverting, ErrConversion.
func (s *Service) OpenMP4(ctx, wait context.Context, session uuid.UUID) (Content, error) {
	content, err := s.Open(ctx, session, MP4Name)
	if !errors.Is(err, ErrMissing) {
		return content, err
	}
	video, err := s.Open(ctx, session, VideoName) // nothing is converted without a video
	if err != nil {
		return nil, err
	}
	_ = video.Close()
	c := s.convert(session)
	if c == nil {
		return nil, errClosed
	}
	select {
	case <-c.done:
	case <-wait.Done():
		return nil, ErrConverting
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrConverting, ctx.Err())
	}
	if c.err != nil {
		return nil, c.err
	}
	return s.Open(ctx, session, MP4Name)
}

// convert starts the conversion of a video, or returns the one that was started before; nil after Close. One video is
// converted at a time.
func (s *Service) convert(session uuid.UUID) *conversion {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if c := s.conversions[session]; c != nil {
		return c
	}
	c := &conversion{done: make(chan struct{})}
	s.conversions[session] = c
	s.work.Go(func() {
		c.err = s.convertInTurn(session)
		if c.err != nil && s.ctx.Err() == nil {
			s.Log.Error("failed to convert a video", "sessionId", session, "error", c.err)
		}
		s.mu.Lock()
		delete(s.conversions, session)
		s.mu.Unlock()
		close(c.done)
	})
	return c
}

func (s *Service) convertInTurn(session uuid.UUID) error {
	select {
	case s.converting <- struct{}{}:
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
	defer func() { <-s.converting }()
	ctx, cancel := context.WithTimeout(s.ctx, conversionTimeout)
	defer cancel()
	video, err := s.Open(ctx, session, VideoName)
	if err != nil {
		return err
	}
	defer video.Close()
	dir, _ := s.Dir(session)
	_, local := video.(localContent)
	if !local {
		dir = s.Store.Journal // the next start removes what a killed worker leaves there
	}
	out, err := os.CreateTemp(dir, MP4Name+".*.new")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConversion, err)
	}
	defer os.Remove(out.Name())
	defer out.Close()
	if err := s.encodeMP4(ctx, video, out); err != nil {
		return fmt.Errorf("%w: %w", ErrConversion, err)
	}
	if !local {
		return s.Store.addMP4(ctx, session, out)
	}
	if err := os.Rename(out.Name(), filepath.Join(dir, MP4Name)); err != nil {
		return fmt.Errorf("%w: %w", ErrConversion, err)
	}
	return nil
}

// encodeMP4 converts a video.
func (s *Service) encodeMP4(ctx context.Context, video Content, out *os.File) error {
	ffmpeg, err := s.ffmpeg()
	if err != nil {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer write.Close()
	process, err := s.StartProcess(ctx, Command{
		Program: ffmpeg, Args: mp4Arguments(), In: read, Out: out, MaxOutput: maxGrowth*video.Size() + minOutput,
	})
	_ = read.Close()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, process.Kill)() // which ends the copy
	_, copied := io.Copy(write, video)
	_ = write.Close()
	<-process.Done()
	return errors.Join(copied, process.Err(), ctx.Err())
}

// mp4Arguments returns the arguments of ffmpeg. The index is at the beginning of the file, so that players start at once.
func mp4Arguments() []string {
	return []string{
		"-nostdin", "-hide_banner", "-loglevel", "error", "-y", "-threads", "1", "-filter_threads", "1", "-f", "matroska", "-i", input, "-an", "-threads", "1",
		"-c:v", "libx264", "-preset", "veryfast", "-crf", "26", "-maxrate", "1500k", "-bufsize", "3000k", "-pix_fmt", "yuv420p",
		"-movflags", "+faststart", "-f", "mp4", output,
	}
}

// addMP4 adds a converted video to a stored recording. Error: ErrStore.
func (s *Store) addMP4(ctx context.Context, session uuid.UUID, video *os.File) error {
	owner, _, err := s.find(ctx, session)
	if err != nil {
		return err
	}
	if _, err := video.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("%w: %w", ErrConversion, err)
	}
	options := &blob.WriterOptions{ContentType: contentTypes[MP4Name], MaxConcurrency: 1}
	if err := s.Bucket.Upload(ctx, owner.object(session, MP4Name), video, options); err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	return nil
}
