package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/uuid"
)

// Record creates the directory for the recording of the launch. It counts for the quota,
// and is kept after the end also if the files are not. Call it once, after Bind. Error:
// ErrEnded.
func (l *Launch) Record() (dir string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return "", ErrEnded
	}
	if !l.store.Keeps() {
		return "", errors.New("files: nothing outlives a launch")
	}
	dir = filepath.Join(l.dir, recordingDir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", storeError(err)
	}
	l.records = true
	if err := l.save(); err != nil {
		l.records = false
		return "", errors.Join(err, os.Remove(dir))
	}
	return dir, nil
}

// CheckSpace returns an error if the launch cannot store more data. Errors: ErrQuota as
// *QuotaError, ErrDiskFull.
func (l *Launch) CheckSpace() error { return l.admit(0) }

// Recording returns the directory of the recording of a session, which runs or has ended.
func (s *Store) Recording(session uuid.UUID) (dir string, ok bool) {
	l, ok := s.find(session)
	if !ok || l.expired(s.Clock.Now()) {
		return "", false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return filepath.Join(l.dir, recordingDir), l.records
}

// RemoveRecording removes the recording of an ended session, which is stored elsewhere.
func (s *Store) RemoveRecording(session uuid.UUID) error {
	l, ok := s.find(session)
	if !ok {
		return nil
	}
	l.mu.Lock()
	if l.ended { // Close may still be storing what is kept
		l.mu.Unlock()
		<-l.closed
		l.mu.Lock()
	}
	l.records = false
	keep := l.keep || !l.ended
	err := errors.Join(os.RemoveAll(filepath.Join(l.dir, recordingDir)), l.save())
	l.mu.Unlock()
	if keep {
		return err
	}
	s.forget(session)
	return errors.Join(err, l.removeAll())
}

// hasFiles reports whether there can be files: not if only the recording has outlived the
// launch.
func (l *Launch) hasFiles() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keep || !l.ended
}

// dropUnkept removes the files of an ended launch of which only the recording is kept.
func (l *Launch) dropUnkept() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keep {
		return nil
	}
	clear(l.files)
	if err := os.RemoveAll(l.Shared()); err != nil {
		return fmt.Errorf("files: %w", err)
	}
	return nil
}
