package recording

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"os"
	"path/filepath"
	"time"
)

// frameQuality is the quality of the JPEGs of a display.
const frameQuality = 80

// Frame is an entry of the index of frames. The frames are one after the other in
// FramesName.
type Frame struct {
	AtMs   int64     `json:"atMs"` // since the start of the recording
	At     time.Time `json:"at"`
	File   string    `json:"file"`  // in an archive
	Width  int       `json:"width"` // in pixels
	Height int       `json:"height"`
	Bytes  int       `json:"bytes"`
}

// recordFrames stores the pictures that differ from the one before until ctx ends. It
// returns why it has failed.
func (r *recorder) recordFrames(ctx context.Context, s *screen) Reason {
	w, err := newFrameWriter(r.subject.Dir, r.current().StartedAt)
	if err == nil {
		err = errors.Join(r.writeFrames(ctx, s, w), w.close())
	}
	switch {
	case err != nil:
		r.service.Log.Error("failed to store frames", "sessionId", r.subject.Session, "error", err)
		return FramesFailed
	case w.count == 0:
		return NoPicture
	}
	return ""
}

func (r *recorder) writeFrames(ctx context.Context, s *screen, w *frameWriter) error {
	pace := time.NewTicker(frameTime)
	defer pace.Stop()
	var last time.Time
	var p, previous Picture
	for ended := false; !ended; {
		select {
		case <-pace.C:
		case <-ctx.Done():
			ended = true
		}
		now, changed := s.copyAfter(last, p.Data)
		if !changed {
			continue
		}
		p, last = now.Picture, now.shownAt
		if p.Size == previous.Size && p.JPEG == previous.JPEG && bytes.Equal(p.Data, previous.Data) {
			continue
		}
		if err := w.add(p, now.shownAt); err != nil {
			return err
		}
		p, previous = previous, p
	}
	return nil
}

// frameWriter writes frames and their index.
type frameWriter struct {
	began       time.Time
	count       int
	data, index *os.File
	rgba        *image.RGBA
	encoded     bytes.Buffer
}

func newFrameWriter(dir string, began time.Time) (_ *frameWriter, err error) {
	w := &frameWriter{began: began}
	if w.data, err = os.OpenFile(filepath.Join(dir, FramesName), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err != nil {
		return nil, err
	}
	if w.index, err = os.OpenFile(filepath.Join(dir, FrameIndexName), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err != nil {
		return nil, errors.Join(err, w.data.Close())
	}
	return w, nil
}

// add writes a picture. The index never names a frame that is not written, also if the
// worker is killed.
func (w *frameWriter) add(p Picture, shownAt time.Time) error {
	data := p.Data
	if !p.JPEG {
		var err error
		if data, err = w.encode(p); err != nil {
			return err
		}
	}
	size, err := jpeg.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil //nolint:nilerr // the browser sent something else
	}
	w.count++
	line, err := json.Marshal(Frame{
		AtMs: max(shownAt.Sub(w.began).Milliseconds(), 0), At: shownAt.UTC(), File: fmt.Sprintf("%06d.jpg", w.count), Width: size.Width, Height: size.Height, Bytes: len(data),
	})
	if err != nil {
		return err
	}
	if _, err := w.data.Write(data); err != nil {
		return err
	}
	_, err = w.index.Write(append(line, '\n'))
	return err
}

// encode returns the JPEG of pixels.
func (w *frameWriter) encode(p Picture) ([]byte, error) {
	if w.rgba == nil || w.rgba.Rect.Max != p.Size {
		w.rgba = image.NewRGBA(image.Rectangle{Max: p.Size})
	}
	for i := 0; i+3 < len(p.Data); i += 4 {
		w.rgba.Pix[i], w.rgba.Pix[i+1], w.rgba.Pix[i+2], w.rgba.Pix[i+3] = p.Data[i+2], p.Data[i+1], p.Data[i], 0xFF
	}
	w.encoded.Reset()
	err := jpeg.Encode(&w.encoded, w.rgba, &jpeg.Options{Quality: frameQuality})
	return w.encoded.Bytes(), err
}

func (w *frameWriter) close() error {
	return errors.Join(w.data.Close(), w.index.Close())
}
