package recording

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"gocloud.dev/blob"
)

const (
	maxUploads       = 2                // at the same time
	uploadTimeout    = 15 * time.Minute // of one attempt for one recording
	firstRetry       = time.Second
	lastRetry        = 5 * time.Minute
	progressInterval = 10 * time.Second
)

// enqueue uploads an ended recording in the background. It tries until the recording is
// stored or has expired on the disk.
func (s *Store) enqueue(session uuid.UUID, dir string, info Info) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[session]
	switch {
	case e == nil:
		return ErrNone
	case s.ctx.Err() != nil:
		return errClosed
	}
	e.Info = info
	s.Metrics.pending.Inc()
	s.work.Go(func() {
		defer s.Metrics.pending.Dec()
		s.uploadUntilStored(session, e.Owner, dir, info)
	})
	return nil
}

// uploadUntilStored repeats an upload until it succeeds or the store is closed.
func (s *Store) uploadUntilStored(session uuid.UUID, owner Owner, dir string, info Info) {
	for attempt, wait := 1, firstRetry; ; attempt, wait = attempt+1, min(2*wait, lastRetry) {
		err := s.uploadInTurn(session, owner, dir, info)
		switch {
		case err == nil || s.ctx.Err() != nil:
			return
		case errors.Is(err, fs.ErrNotExist):
			s.Log.Error("a recording was removed from the disk before it was stored", "sessionId", session, "error", err)
			s.forget(session)
			return
		}
		pause := wait/2 + rand.N(wait/2)
		s.Log.Warn("failed to store a recording; it is tried again", "sessionId", session, "attempt", attempt, "retryIn", pause.Round(time.Millisecond), "error", err)
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
			return
		}
	}
}

// uploadInTurn uploads a recording when fewer than maxUploads are in progress, and removes
// it from the disk.
func (s *Store) uploadInTurn(session uuid.UUID, owner Owner, dir string, info Info) error {
	select {
	case s.uploads <- struct{}{}:
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
	defer func() { <-s.uploads }()
	ctx, cancel := context.WithTimeout(s.ctx, uploadTimeout)
	defer cancel()
	began := time.Now()
	bytes, err := s.upload(ctx, session, owner, dir, info)
	s.Metrics.countUpload(bytes, err)
	if err != nil {
		return err
	}
	if err := s.markStored(session, info); err != nil {
		return err
	}
	if err := s.Remove(session); err != nil {
		s.Log.Warn("failed to remove a stored recording from the disk; it is removed after FILES_RETENTION", "sessionId", session, "error", err)
	}
	s.Log.Info("recording stored", "sessionId", session, "bytes", bytes, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// upload uploads the parts, then the description.
func (s *Store) upload(ctx context.Context, session uuid.UUID, owner Owner, dir string, info Info) (bytes int64, err error) {
	if _, err := os.Stat(filepath.Join(dir, infoName)); err != nil {
		return 0, err
	}
	var progress atomic.Int64
	defer s.reportProgress(ctx, session, &progress, info.Bytes)()
	for _, name := range info.files() {
		f, err := os.Open(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) { // there was nothing to record
			continue
		}
		if err != nil {
			return progress.Load(), err
		}
		err = s.Bucket.Upload(ctx, owner.object(session, name), &countingReader{f, &progress}, &blob.WriterOptions{ContentType: contentTypes[name], MaxConcurrency: 1})
		_ = f.Close()
		if err != nil {
			return progress.Load(), fmt.Errorf("store %s: %w", name, err)
		}
	}
	raw, err := json.Marshal(description{Info: info, Session: session, Access: owner.Access, Expires: info.EndedAt.Add(s.Retention)})
	if err != nil {
		return progress.Load(), err
	}
	if err := s.Bucket.WriteAll(ctx, owner.object(session, infoName), raw, &blob.WriterOptions{ContentType: "application/json"}); err != nil {
		return progress.Load(), fmt.Errorf("store %s: %w", infoName, err)
	}
	return progress.Load(), nil
}

// reportProgress logs the progress of an upload until stop is called.
func (s *Store) reportProgress(ctx context.Context, session uuid.UUID, progress *atomic.Int64, total int64) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				s.Log.Info("storing a recording", "sessionId", session, "sentBytes", progress.Load(), "bytes", total)
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// countingReader counts what is read.
type countingReader struct {
	io.Reader
	bytes *atomic.Int64
}

// Read implements io.Reader.
func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

// resume continues the uploads of an earlier worker. info describes what is on the disk.
func (s *Store) resume(local func(session uuid.UUID) (dir string, info Info, ok bool)) {
	s.mu.Lock()
	var sessions []uuid.UUID
	for session, e := range s.entries {
		if e.StoredAt.IsZero() {
			sessions = append(sessions, session)
		}
	}
	s.mu.Unlock()
	for _, session := range sessions {
		dir, info, ok := local(session)
		if !ok {
			s.Log.Warn("a recording of an earlier worker is not stored: it is not on the disk any more", "sessionId", session)
			s.forget(session)
			continue
		}
		if info.EndedAt.IsZero() { // its worker was killed
			info.EndedAt = s.Clock.Now()
		}
		if err := s.enqueue(session, dir, info); err != nil {
			s.Log.Error("failed to store a recording of an earlier worker", "sessionId", session, "error", err)
		}
	}
}
