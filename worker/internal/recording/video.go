package recording

import (
	"cmp"
	"context"
	"image"
	"path/filepath"
	"sync"
	"time"
)

const (
	frameRate = 5
	// frameTime is the time of a frame in a video, and the shortest between two pictures.
	frameTime = time.Second / frameRate
)

// MaxWidth is the maximum width of videos, in pixels.
const MaxWidth = 1280

// PictureInterval is the shortest useful time between two pictures of a browser.
const PictureInterval = frameTime

// Picture is what a browser shows: a JPEG, or pixels of four bytes (blue, green, red and an
// unused one).
type Picture struct {
	JPEG bool
	Size image.Point
	Data []byte
}

// screen holds the latest picture, so that a slow encoder never delays the browser.
type screen struct {
	mu      sync.Mutex
	picture Picture
	at      time.Time     // when the picture was shown
	shown   chan struct{} // closed with the first picture
	once    sync.Once
}

// show stores a copy of a picture.
func (s *screen) show(p Picture) {
	if p.Size.X < 2 || p.Size.Y < 2 {
		return
	}
	s.mu.Lock()
	p.Data = append(s.picture.Data[:0], p.Data...)
	s.picture, s.at = p, time.Now()
	s.mu.Unlock()
	s.once.Do(func() { close(s.shown) })
}

// copyTo returns the latest picture in a buffer, and the time when it was shown.
func (s *screen) copyTo(buffer []byte) (Picture, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.picture
	p.Data = append(buffer[:0], p.Data...)
	return p, s.at
}

// copyAfter is copyTo for a picture that was shown after a time; false if there is none.
func (s *screen) copyAfter(last time.Time, buffer []byte) (p Picture, at time.Time, ok bool) {
	s.mu.Lock()
	at = s.at
	s.mu.Unlock()
	if !at.After(last) {
		return Picture{Data: buffer}, last, false
	}
	p, at = s.copyTo(buffer)
	return p, at, true
}

// recordVideo records until ctx ends. The time of the video is that of the recording: the
// latest picture is repeated while nothing changes. It returns why the video has failed.
func (r *recorder) recordVideo(ctx context.Context, s *screen) Reason {
	select {
	case <-s.shown:
	case <-ctx.Done():
		select {
		case <-s.shown:
		default:
			return NoPicture
		}
	}
	first, _ := s.copyTo(nil)
	e, err := startEncoder(r.service.FFmpeg, filepath.Join(r.subject.Dir, VideoName), first)
	if err != nil {
		r.service.Log.Error("failed to start ffmpeg", "sessionId", r.subject.Session, "error", err)
		return EncoderFailed
	}
	err = r.encode(ctx, e, s)
	ended := e.finish()
	r.encoderCPU = e.cpu()
	if err == nil {
		err = ended
	}
	if err != nil {
		r.service.Log.Error("ffmpeg failed", "sessionId", r.subject.Session, "error", err)
		return EncoderFailed
	}
	return ""
}

// encode gives the encoder one picture per frame until ctx ends. If it was too slow, the frames
// before the latest picture repeat the one before.
func (r *recorder) encode(ctx context.Context, e *encoder, s *screen) error {
	began := r.current().StartedAt
	pace := time.NewTicker(frameTime)
	defer pace.Stop()
	var previous, latest Picture
	for written := int64(0); ; {
		ended, now := ctx.Err() != nil, time.Now()
		if ended { // the encoder may have been too slow
			now = cmp.Or(r.current().EndedAt, now)
		}
		due := int64(now.Sub(began)/frameTime) + 1
		if written > 0 && due-written > 1 && !ended { // the encoder, or this process, was too slow
			r.countDropped(due - written - 1)
		}
		var at time.Time
		latest, at = s.copyTo(latest.Data)
		for ; written < due; written++ {
			p := latest
			if len(previous.Data) > 0 && written < due-1 && began.Add(time.Duration(written)*frameTime).Before(at) {
				p = previous
			}
			if err := e.write(p); err != nil {
				return err
			}
		}
		previous, latest = latest, previous
		if ended {
			return nil
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
		}
	}
}
