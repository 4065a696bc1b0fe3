package files

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/shared/clock"
)

// Options configures a Store.
type Options struct {
	Dir       string        // created if needed; other users need access if browsers run as other users
	Quota     int64         // bytes of one launch; 0 is unlimited
	MinFree   int64         // bytes of the disk that stay free
	Retention time.Duration // of kept files; 0: files are not kept
	Clock     clock.Clock
	Log       *slog.Logger
	Metrics   *Metrics // nil: not exported
}

// Store holds the files of all launches of this machine.
type Store struct {
	Options
	work    sync.WaitGroup // checksums
	hashing sync.Mutex     // one at a time

	mu       sync.Mutex            // not held together with that of a launch
	sessions map[uuid.UUID]*Launch // running and kept
}

// Open returns a store. Call Load before the first launch.
func Open(o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.System{}
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	if err := os.MkdirAll(o.Dir, 0o711); err != nil {
		return nil, fmt.Errorf("files: %w", err)
	}
	return &Store{Options: o, sessions: map[uuid.UUID]*Launch{}}, nil
}

// Load reads the kept files of an earlier worker and removes its other files. No launch
// of that worker may run.
func (s *Store) Load() error {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return fmt.Errorf("files: %w", err)
	}
	var errs []error
	for _, e := range entries {
		l, err := s.load(e.Name())
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				s.Log.Warn("failed to read the index of kept files; they are removed", "launchId", e.Name(), "error", err)
			}
			errs = append(errs, os.RemoveAll(filepath.Join(s.Dir, e.Name())))
			continue
		}
		s.register(l.session, l)
	}
	s.Sweep()
	return errors.Join(errs...)
}

func (s *Store) register(session uuid.UUID, l *Launch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[session] = l
}

func (s *Store) find(session uuid.UUID) (*Launch, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.sessions[session]
	return l, ok
}

func (s *Store) forget(session uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, session)
}

// Keeps reports whether files can outlive their launch.
func (s *Store) Keeps() bool { return s.Retention > 0 }

// BySession returns the files of a session, which runs or has kept them.
func (s *Store) BySession(id uuid.UUID) (*Launch, bool) {
	l, ok := s.find(id)
	if ok && (l.expired(s.Clock.Now()) || !l.hasFiles()) {
		return nil, false
	}
	return l, ok
}

// Kept returns the number of ended launches that are kept.
func (s *Store) Kept() int { return len(s.keptLaunches()) }

// Wait waits for work in the background. No launch may run.
func (s *Store) Wait() { s.work.Wait() }

// free returns the free bytes of the disk.
func (s *Store) free() (int64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(s.Dir, &stat); err != nil {
		return 0, fmt.Errorf("files: %w", err)
	}
	return int64(stat.Bavail) * stat.Bsize, nil
}

// spare returns how many more bytes the disk has space for; negative if it is full.
func (s *Store) spare() int64 {
	free, err := s.free()
	if err != nil {
		return math.MaxInt64
	}
	return free - s.MinFree
}
