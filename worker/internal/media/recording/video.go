package recording

import (
	"cmp"
	"context"
	"errors"
	"image"
	"math"
	"path/filepath"
	"slices"
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

// maxWaiting is the maximum number of pictures that wait for a slow encoder.
const maxWaiting = 5

// shownPicture is a picture, and the time when the browser showed it.
type shownPicture struct {
	Picture
	shownAt time.Time
}

// screen holds the latest pictures in the order of their times, so that a slow encoder never
// delays the browser.
type screen struct {
	limit      int           // of pictures
	hasPicture chan struct{} // closed with the first picture

	mu       sync.Mutex
	pictures []shownPicture
	spare    []byte // memory of a picture that was removed
}

func newScreen(limit int) *screen { return &screen{limit: limit, hasPicture: make(chan struct{})} }

// show stores a copy of a picture.
func (s *screen) show(p Picture) {
	if p.Size.X < 2 || p.Size.Y < 2 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if len(s.pictures) == 0 {
		close(s.hasPicture)
	} else if len(s.pictures) == s.limit {
		s.remove(s.briefest(now))
	}
	p.Data, s.spare = append(s.spare[:0], p.Data...), nil
	s.pictures = append(s.pictures, shownPicture{p, now})
}

// briefest returns the index of the picture that the browser showed for the shortest time.
func (s *screen) briefest(now time.Time) int {
	least, shortest := 0, time.Duration(math.MaxInt64)
	for i, p := range s.pictures {
		until := now
		if i+1 < len(s.pictures) {
			until = s.pictures[i+1].shownAt
		}
		if d := until.Sub(p.shownAt); d < shortest {
			least, shortest = i, d
		}
	}
	return least
}

func (s *screen) remove(i int) {
	s.spare = s.pictures[i].Data
	s.pictures = slices.Delete(s.pictures, i, i+1)
}

// copyAt returns a copy of the picture that the browser showed at a time, or of the first one if
// that is later. It removes the pictures before it. p is the picture of the last call: it is
// returned if it is still the right one, and its memory is used again.
func (s *screen) copyAt(moment time.Time, p shownPicture) shownPicture {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.pictures) > 1 && !s.pictures[1].shownAt.After(moment) {
		s.remove(0)
	}
	if p.shownAt.Equal(s.pictures[0].shownAt) {
		return p
	}
	return s.pictures[0].copy(p.Data)
}

// copyAfter returns a copy of the latest picture in a buffer, or false if it is not later than the
// last one. It removes none.
func (s *screen) copyAfter(last time.Time, buffer []byte) (shownPicture, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pictures) == 0 || !s.pictures[len(s.pictures)-1].shownAt.After(last) {
		return shownPicture{}, false
	}
	return s.pictures[len(s.pictures)-1].copy(buffer), true
}

func (p shownPicture) copy(buffer []byte) shownPicture {
	p.Data = append(buffer[:0], p.Data...)
	return p
}

// recordVideo records until ctx ends. The time of the video is that of the recording: the
// latest picture is repeated while nothing changes. It returns why the video has failed.
func (r *recorder) recordVideo(ctx context.Context, s *screen) Reason {
	select {
	case <-s.hasPicture:
	case <-ctx.Done():
		select {
		case <-s.hasPicture:
		default:
			return NoPicture
		}
	}
	first := s.copyAt(time.Time{}, shownPicture{})
	e, err := r.startEncoder(ctx, filepath.Join(r.subject.Dir, VideoName), first.Picture)
	if err != nil {
		r.service.Log.Error("failed to start ffmpeg", "sessionId", r.subject.Session, "error", err)
		return EncoderFailed
	}
	err = errors.Join(r.encode(ctx, e, s), e.finish()) // the messages of ffmpeg explain a failed write
	r.encoderCPU = e.CPU()
	if err != nil {
		r.service.Log.Error("ffmpeg failed", "sessionId", r.subject.Session, "error", err)
		return EncoderFailed
	}
	return ""
}

// encode gives the encoder one picture per frame until ctx ends: what the browser showed when the
// frame began. Only the latest frame shows what the browser shows now.
func (r *recorder) encode(ctx context.Context, e *encoder, s *screen) error {
	began := r.current().StartedAt
	pace := time.NewTicker(frameTime)
	defer pace.Stop()
	var p shownPicture
	for written := int64(0); ; {
		ended, now := ctx.Err() != nil, time.Now()
		if ended { // the encoder may have been too slow
			now = cmp.Or(r.current().EndedAt, now)
		}
		due := int64(now.Sub(began)/frameTime) + 1
		if written > 0 && due-written > 1 && !ended { // the encoder, or this process, was too slow
			r.countDropped(due - written - 1)
		}
		for ; written < due; written++ {
			moment := now
			if written < due-1 {
				moment = began.Add(time.Duration(written) * frameTime)
			}
			p = s.copyAt(moment, p)
			if err := e.write(p.Picture); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
		}
	}
}
