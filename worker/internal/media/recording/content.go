package recording

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"gocloud.dev/gcerrors"
)

// Content is the content of a part of a recording.
type Content interface {
	io.ReadSeekCloser
	Size() int64
}

type localContent struct {
	*os.File
	size int64
}

// Size implements Content.
func (c localContent) Size() int64 { return c.size }

// Open opens a file of an ended recording, such as VideoName, from the disk or the store.
// ctx bounds the reads too. Errors: ErrNone, ErrRunning, ErrMissing, ErrStore.
func (s *Service) Open(ctx context.Context, session uuid.UUID, name string) (Content, error) {
	return s.open(ctx, session, name, false)
}

// open is Open. With live, a running recording is opened too, with its present length.
func (s *Service) open(ctx context.Context, session uuid.UUID, name string, live bool) (Content, error) {
	content, err := s.openLocal(session, name, live)
	if s.Store == nil || !errors.Is(err, ErrNone) && !errors.Is(err, ErrMissing) {
		return content, err
	}
	owner, info, found := s.Store.find(ctx, session)
	switch {
	case errors.Is(found, ErrNone):
		return nil, err
	case found != nil:
		return nil, found
	case !info.has(name):
		return nil, ErrMissing
	}
	return s.Store.open(ctx, owner, session, name)
}

// openLocal opens a file on the disk.
func (s *Service) openLocal(session uuid.UUID, name string, live bool) (Content, error) {
	dir, exists := s.Dir(session)
	info, ok := s.localInfo(session)
	switch {
	case !ok || !exists:
		return nil, ErrNone
	case !info.has(name):
		return nil, ErrMissing
	case info.State == Running && !live:
		return nil, ErrRunning
	}
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	stat, err := f.Stat()
	if err != nil || stat.Size() == 0 {
		_ = f.Close()
		return nil, ErrMissing
	}
	return localContent{f, stat.Size()}, nil
}

// find returns a stored recording of this worker, or of another one with the same owner.
// Errors: ErrNone, ErrStore.
func (s *Store) find(ctx context.Context, session uuid.UUID) (Owner, Info, error) {
	if e, ok := s.stored(session); ok {
		return e.Owner, e.Info, nil
	}
	if s.Own == (Owner{}) {
		return Owner{}, Info{}, ErrNone
	}
	raw, err := s.Bucket.ReadAll(ctx, s.Own.object(session, infoName))
	if gcerrors.Code(err) == gcerrors.NotFound {
		return Owner{}, Info{}, ErrNone
	}
	if err != nil {
		return Owner{}, Info{}, fmt.Errorf("%w: %w", ErrStore, err)
	}
	var d description
	if err := json.Unmarshal(raw, &d); err != nil {
		return Owner{}, Info{}, fmt.Errorf("%w: the description of %s: %w", ErrStore, session, err)
	}
	if d.Session != session || d.Access != s.Own.Access || !s.Clock.Now().Before(d.Expires) {
		return Owner{}, Info{}, ErrNone
	}
	return s.Own, d.Info, nil
}

// open opens an object of a recording.
func (s *Store) open(ctx context.Context, owner Owner, session uuid.UUID, name string) (Content, error) {
	r, err := s.Bucket.NewReader(ctx, owner.object(session, name), nil)
	switch {
	case gcerrors.Code(err) == gcerrors.NotFound:
		return nil, ErrMissing
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrStore, err)
	case r.Size() == 0:
		_ = r.Close()
		return nil, ErrMissing
	}
	return r, nil
}
