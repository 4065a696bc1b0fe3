package recording

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"
)

// Frames are the frames of an ended recording.
type Frames struct {
	index []Frame
	data  Content
}

// OpenFrames opens the frames of an ended recording. Errors: those of Open.
func (s *Service) OpenFrames(ctx context.Context, session uuid.UUID) (*Frames, error) {
	index, err := s.Open(ctx, session, FrameIndexName)
	if err != nil {
		return nil, err
	}
	defer index.Close()
	data, err := s.Open(ctx, session, FramesName)
	if err != nil {
		return nil, err
	}
	f := &Frames{data: data}
	if f.index, err = readIndex(index, data.Size()); err != nil {
		_ = data.Close()
		return nil, err
	}
	return f, nil
}

// readIndex returns the frames that are complete within size bytes of data. Error: ErrStore.
func readIndex(index Content, size int64) (frames []Frame, err error) {
	lines := bufio.NewScanner(index)
	for lines.Scan() {
		var frame Frame
		if json.Unmarshal(lines.Bytes(), &frame) != nil { // the last line of a worker that was killed
			break
		}
		if size -= int64(frame.Bytes); size < 0 {
			break
		}
		frames = append(frames, frame)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: read the index of frames: %w", ErrStore, err)
	}
	return frames, nil
}

// Close closes the frames.
func (f *Frames) Close() error { return f.data.Close() }

// WriteZip writes an archive: the index, then the frames. The archive is written without
// reading all frames first.
func (f *Frames) WriteZip(w io.Writer) error {
	archive := zip.NewWriter(w)
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, frame := range f.index {
		if err := encoder.Encode(frame); err != nil {
			return err
		}
	}
	header := &zip.FileHeader{Name: FrameIndexName, Method: zip.Deflate}
	if len(f.index) > 0 {
		header.Modified = f.index[0].At
	}
	if err := addEntry(archive, header, &lines, int64(lines.Len())); err != nil {
		return err
	}
	for _, frame := range f.index {
		// JPEGs are compressed.
		if err := addEntry(archive, &zip.FileHeader{Name: frame.File, Method: zip.Store, Modified: frame.At}, f.data, int64(frame.Bytes)); err != nil {
			return err
		}
	}
	return archive.Close()
}

func addEntry(archive *zip.Writer, header *zip.FileHeader, content io.Reader, size int64) error {
	entry, err := archive.CreateHeader(header)
	if err != nil {
		return err
	}
	_, err = io.CopyN(entry, content, size)
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
