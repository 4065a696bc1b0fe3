package files

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
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

	mu       sync.Mutex
	launches map[string]*Launch    // running, by launch id
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
	return &Store{Options: o, launches: map[string]*Launch{}, sessions: map[uuid.UUID]*Launch{}}, nil
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
		s.mu.Lock()
		s.sessions[l.session] = l
		s.mu.Unlock()
	}
	s.Sweep()
	return errors.Join(errs...)
}

// Keeps reports whether files can outlive their launch.
func (s *Store) Keeps() bool { return s.Retention > 0 }

// ByLaunch returns the files of a running launch.
func (s *Store) ByLaunch(id string) (*Launch, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.launches[id]
	return l, ok
}

// BySession returns the files of a session, which runs or has kept them.
func (s *Store) BySession(id uuid.UUID) (*Launch, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.sessions[id]
	if ok && (l.expired(s.Clock.Now()) || !l.hasFiles()) {
		return nil, false
	}
	return l, ok
}

// Counts returns the numbers of launches with files: running and kept.
func (s *Store) Counts() (running, kept int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.sessions {
		if _, runs := s.launches[l.ID]; !runs {
			kept++
		}
	}
	return len(s.launches), kept
}

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

// hasSpace reports whether the disk has space for this many more bytes.
func (s *Store) hasSpace(more int64) bool {
	free, err := s.free()
	return err != nil || free-more >= s.MinFree
}
