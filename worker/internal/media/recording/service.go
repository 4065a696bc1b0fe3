package recording

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/media/trace"
)

// Options configures a Service.
type Options struct {
	// Dir returns the directory of the recording of a session; false if it was removed.
	Dir     func(session uuid.UUID) (string, bool)
	FFmpeg  string // path of the program; "": found in PATH
	Log     *slog.Logger
	Metrics *Metrics // nil: not exported
	Store   *Store   // of ended recordings; nil: they stay on the disk

	StartProcess StartProcess // starts ffmpeg for conversions
}

// Subject is a running browser to record.
type Subject struct {
	Session uuid.UUID
	Dir     string
	Owner   Owner           // where the recording is stored; without a Store it is not used
	Done    <-chan struct{} // closed when the browser has ended
	// CheckSpace returns QuotaExceeded or DiskFull if the recording must end, otherwise "".
	CheckSpace func() Reason
	Video      bool // a video of the pictures
	Frames     bool // the pictures themselves

	StartProcess StartProcess // starts ffmpeg for Video
	// Pictures shows what the browser shows until ctx ends, the browser ends or an error
	// occurs. Nil: neither video nor frames.
	Pictures func(ctx context.Context, show func(Picture)) error
	// Events returns what happens, as Pictures. Nil: no events.
	Events func(ctx context.Context, add func(Event)) error
	// Requests collects requests until ctx or the browser ends. Nil: none.
	Requests func(ctx context.Context, log *RequestLog) error
	Trace    Tracer // of what clients do; nil: no trace. The recording closes it
	// Ended is called when the recording is on the disk. Nil: no call.
	Ended func(Info)
}

// Tracer records a trace.
type Tracer interface {
	// Run records as Pictures shows pictures.
	Run(ctx context.Context, w *trace.Writer) error
	Close()
}

// Service records browsers.
type Service struct {
	Options
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	converting chan struct{} // limits concurrent conversions

	mu          sync.Mutex
	closed      bool
	recorders   map[uuid.UUID]*recorder   // of this service, until the directory is removed
	conversions map[uuid.UUID]*conversion // until they have ended
}

// New returns a Service. The caller must call Close.
func New(o Options) *Service {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	s := &Service{Options: o, converting: make(chan struct{}, 1), recorders: map[uuid.UUID]*recorder{}, conversions: map[uuid.UUID]*conversion{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if s.Store != nil {
		s.Store.resume(func(session uuid.UUID) (string, Info, bool) {
			dir, exists := s.Dir(session)
			info, ok := s.localInfo(session)
			return dir, info, ok && exists
		})
	}
	return s
}

// Close ends all recordings and waits until they are on the disk. It may be called again.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.work.Wait()
}

// Start starts to record, in the background. A session has one recording. Error: ErrExists.
func (s *Service) Start(subject Subject) error {
	if _, ok := s.Info(subject.Session); ok {
		return ErrExists
	}
	r := newRecorder(s, subject)
	var ctx context.Context
	ctx, r.stop = context.WithCancel(s.ctx)
	if err := s.add(r); err != nil {
		return err
	}
	err := r.save()
	if err == nil && s.Store != nil {
		err = s.Store.begin(subject.Session, subject.Owner)
	}
	if err != nil {
		s.mu.Lock()
		delete(s.recorders, subject.Session)
		s.mu.Unlock()
		close(r.ended)
		r.stop()
		s.work.Done()
		return err
	}
	go func() {
		defer s.work.Done()
		defer r.stop()
		r.run(ctx)
	}()
	return nil
}

// add adds a recorder that has started. Errors: ErrExists, errClosed.
func (s *Service) add(r *recorder) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	s.forgetRemoved()
	if s.recorders[r.subject.Session] != nil {
		return ErrExists
	}
	s.recorders[r.subject.Session] = r
	s.work.Add(1)
	return nil
}

// Stop ends a recording, and returns its description when it is on the disk. Errors: ErrNone if the session is not
// recorded, or that of ctx.
func (s *Service) Stop(ctx context.Context, session uuid.UUID) (Info, error) {
	s.mu.Lock()
	r := s.recorders[session]
	s.mu.Unlock()
	if r == nil || r.current().State != Running {
		return Info{}, ErrNone
	}
	r.stop()
	select {
	case <-r.ended:
		return r.current(), nil
	case <-ctx.Done():
		return Info{}, fmt.Errorf("recording: %w", ctx.Err())
	}
}

// forgetRemoved forgets the recordings that were removed. The caller holds the lock.
func (s *Service) forgetRemoved() {
	for session := range s.recorders {
		if _, ok := s.Dir(session); !ok {
			delete(s.recorders, session)
		}
	}
}

// Info returns the description of a recording of this worker, also of an earlier run.
func (s *Service) Info(session uuid.UUID) (Info, bool) {
	if info, ok := s.localInfo(session); ok {
		return info, true
	}
	e, ok := s.Store.stored(session)
	e.Info.Stored = true
	return e.Info, ok
}

// Find returns the description of a recording like Info, and also if another worker with
// the same owner has made it. Errors: ErrNone, ErrStore.
func (s *Service) Find(ctx context.Context, session uuid.UUID) (Info, error) {
	info, ok := s.Info(session)
	switch {
	case ok:
		return info, nil
	case s.Store == nil:
		return Info{}, ErrNone
	}
	_, info, err := s.Store.find(ctx, session)
	info.Stored = true
	return info, err
}

// localInfo returns the description of a recording on the disk.
func (s *Service) localInfo(session uuid.UUID) (Info, bool) {
	dir, ok := s.Dir(session)
	if !ok {
		return Info{}, false
	}
	s.mu.Lock()
	r := s.recorders[session]
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

// size returns the bytes of a recording.
func size(dir string) (bytes int64) {
	for _, name := range append(trace.Names(), VideoName, EventsName, FramesName, FrameIndexName, HARName) {
		if stat, err := os.Stat(filepath.Join(dir, name)); err == nil {
			bytes += stat.Size()
		}
	}
	return bytes
}
