package recording

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/media/script"
	"github.com/browser-svc/svc/worker/internal/media/trace"
)

// recordTrace records until ctx ends or nothing more can be stored. It returns why it has failed.
func (r *recorder) recordTrace(ctx context.Context) Reason {
	defer r.subject.Trace.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := trace.NewWriter(r.subject.Dir, r.current().StartedAt, cancel)
	if err == nil {
		repeat(ctx, func(ctx context.Context) error { return r.subject.Trace.Run(ctx, w) })
		err = w.Close()
	}
	if err != nil {
		r.service.Log.Error("failed to store a trace", "sessionId", r.subject.Session, "error", err)
		return TraceFailed
	}
	return ""
}

// Trace is the trace of an ended recording.
type Trace struct {
	parts trace.Parts
	files []io.Closer
}

// OpenTrace opens the trace of an ended recording. Errors: those of Open.
func (s *Service) OpenTrace(ctx context.Context, session uuid.UUID) (*Trace, error) {
	t := &Trace{}
	open := func(name string) (io.Reader, int64, error) {
		content, err := s.Open(ctx, session, name)
		if err != nil && name != trace.EventsName && errors.Is(err, ErrMissing) { // it is empty
			return strings.NewReader(""), 0, nil
		}
		if err != nil {
			return nil, 0, err
		}
		t.files = append(t.files, content)
		return content, content.Size(), nil
	}
	var err error
	for name, part := range map[string]*io.Reader{
		trace.EventsName: &t.parts.Events, trace.NetworkName: &t.parts.Network, trace.IndexName: &t.parts.Index, trace.ResourcesName: &t.parts.Resources,
	} {
		var size int64
		if *part, size, err = open(name); err != nil {
			return nil, errors.Join(err, t.Close())
		}
		if name == trace.ResourcesName {
			t.parts.ResourceBytes = size
		}
	}
	return t, nil
}

// Script returns a script that does again what was done in a session that is or was recorded with a trace. Errors: those
// of Open, without ErrRunning.
func (s *Service) Script(ctx context.Context, session uuid.UUID, l script.Language) (string, error) {
	content, err := s.open(ctx, session, trace.StepsName, true)
	if errors.Is(err, ErrMissing) {
		if info, found := s.Find(ctx, session); found == nil && info.Trace && info.State != Failed { // nothing was done
			return script.Make(l, nil), nil
		}
	}
	if err != nil {
		return "", err
	}
	steps, err := script.Read(io.LimitReader(content, content.Size()))
	if err = errors.Join(err, content.Close()); err != nil {
		return "", fmt.Errorf("%w: read the steps: %w", ErrStore, err)
	}
	return script.Make(l, steps), nil
}

// WriteZip writes the archive that a trace viewer opens.
func (t *Trace) WriteZip(w io.Writer) error { return trace.WriteZip(w, t.parts) }

// Close closes the trace.
func (t *Trace) Close() (err error) {
	for _, f := range t.files {
		err = errors.Join(err, f.Close())
	}
	return err
}
