package recording

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/google/uuid"
)

// Options configures a Service.
type Options struct {
	// Dir returns the directory of the recording of a session; false if it was removed.
	Dir     func(session uuid.UUID) (string, bool)
	FFmpeg  string // path of the program; "": found in PATH
	Log     *slog.Logger
	Metrics *Metrics // nil: not exported
}

// Subject is a running browser to record.
type Subject struct {
	Session uuid.UUID
	Dir     string
	Done    <-chan struct{} // closed when the browser has ended
	// Room returns QuotaExceeded or DiskFull if the recording must end, otherwise "".
	Room func() Reason
	// Pictures shows what the browser shows until ctx ends, the browser ends or an error
	// occurs. Nil: no video.
	Pictures func(ctx context.Context, show func(Picture)) error
	// Events returns what happens, as Pictures. Nil: no events.
	Events func(ctx context.Context, add func(Event)) error
}

// Service records browsers.
type Service struct {
	Options
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	known  map[uuid.UUID]*recorder // of this service, until the directory is removed
}

// New returns a Service. The caller must call Close.
func New(o Options) *Service {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	s := &Service{Options: o, known: map[uuid.UUID]*recorder{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close ends all recordings and waits until they are stored.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.work.Wait()
}

// Start starts to record, in the background.
func (s *Service) Start(of Subject) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("recording: the worker is shutting down")
	}
	s.forgetRemoved()
	r := newRecorder(s, of)
	if err := r.save(); err != nil {
		return err
	}
	s.known[of.Session] = r
	s.work.Go(func() { r.run(s.ctx) })
	return nil
}

// forgetRemoved forgets the recordings that were removed. The caller holds the lock.
func (s *Service) forgetRemoved() {
	for session := range s.known {
		if _, ok := s.Dir(session); !ok {
			delete(s.known, session)
		}
	}
}

// Info returns the description of a recording, also of one by an earlier worker.
func (s *Service) Info(session uuid.UUID) (Info, bool) {
	dir, ok := s.Dir(session)
	if !ok {
		return Info{}, false
	}
	s.mu.Lock()
	r := s.known[session]
	s.mu.Unlock()
	if r != nil {
		return r.current(), true
	}
	raw, err := os.ReadFile(filepath.Join(dir, infoName))
	var info Info
	if err != nil || json.Unmarshal(raw, &info) != nil {
		return Info{}, false
	}
	if info.State == Running { // its worker was killed
		info.State, info.Reason = Incomplete, Interrupted
		info.Bytes = size(dir)
	}
	return info, true
}

// Open opens VideoName or EventsName of an ended recording. Errors: ErrNone, ErrRunning,
// ErrMissing.
func (s *Service) Open(session uuid.UUID, name string) (*os.File, error) {
	info, ok := s.Info(session)
	dir, exists := s.Dir(session)
	switch {
	case !ok || !exists:
		return nil, ErrNone
	case name == VideoName && !info.Video || name == EventsName && !info.Events:
		return nil, ErrMissing
	case info.State == Running:
		return nil, ErrRunning
	}
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	if at, err := f.Stat(); err != nil || at.Size() == 0 {
		_ = f.Close()
		return nil, ErrMissing
	}
	return f, nil
}

// size returns the bytes of a recording.
func size(dir string) (bytes int64) {
	for _, name := range []string{VideoName, EventsName} {
		if at, err := os.Stat(filepath.Join(dir, name)); err == nil {
			bytes += at.Size()
		}
	}
	return bytes
}
