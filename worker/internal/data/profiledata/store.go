// Package profiledata keeps the browser data of profiles between launches:
// versioned snapshots on this machine, one directory for each profile.
//
//	<profile id>/
//	  .lock          locked while a launch or the operator uses the profile
//	  7.tar.zst      a version; the highest number is the current one
//	  6.tar.zst
//	  5.tar.zst.bad  a damaged version, quarantined for the operator
//	  saving.tmp     a version being written
//
// A version gets its name only when it is complete, synced and verified, and an old
// version is removed only after a newer one exists. So after a crash at any time the
// last saved version is available.
package profiledata

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
)

// Options configures a Store. All but SaveTime and Logger are required.
type Options struct {
	Dir      string        // of all profiles; created on demand
	Versions int           // kept versions of each profile, at least 1
	MaxBytes int64         // unpacked size of a snapshot
	SaveTime time.Duration // bounds a Save once it has started; 0: no limit
	Clock    clock.Clock
	Logger   *slog.Logger // discarded when nil
}

// Store holds the profile data of this machine. Several stores, also in several
// processes, can use one directory.
type Store struct {
	opts  Options
	slots chan struct{} // limits concurrent packing and unpacking
}

// maxConcurrent limits concurrent packing and unpacking: each takes a processor and
// some megabytes of memory.
const maxConcurrent = 2

// ErrInUse means that a launch or another command uses the profile's data.
var ErrInUse = errors.New("the profile's data is in use")

// ErrNotFound means that this machine has no data of a profile.
var ErrNotFound = errors.New("this machine has no data of this profile")

// Open returns the store in a directory.
func Open(opts Options) (*Store, error) {
	if opts.Versions < 1 || opts.MaxBytes < 1 {
		return nil, errors.New("profile data: Versions and MaxBytes must be at least 1")
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{opts: opts, slots: make(chan struct{}, maxConcurrent)}
	return s, s.removeLeftovers()
}

// Acquire gives a launch exclusive access to a profile's data until Release or the
// end of the process. Errors: Conflict if the data is in use.
func (s *Store) Acquire(profileID uuid.UUID) (*Handle, error) {
	c, err := s.acquire(profileID, true)
	if errors.Is(err, ErrInUse) {
		return nil, fault.Wrap(err, fault.Conflict, "The profile keeps its data and is already running on this worker.")
	}
	if err != nil {
		return nil, fmt.Errorf("acquire the profile's data: %w", err)
	}
	return c, nil
}

// acquire locks a profile's directory, creates it if requested, and removes
// temporary files of a crash.
func (s *Store) acquire(profileID uuid.UUID, create bool) (*Handle, error) {
	dir := filepath.Join(s.opts.Dir, profileID.String())
	lock, err := lockDir(dir)
	for create && errors.Is(err, fs.ErrNotExist) { // retry if it was removed concurrently
		if err := createDir(dir); err != nil {
			return nil, err
		}
		lock, err = lockDir(dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	c := &Handle{store: s, dir: dir, lock: lock, log: s.opts.Logger.With("profileId", profileID)}
	if err := c.removeTemporaryFiles(); err != nil {
		c.Release()
		return nil, err
	}
	return c, nil
}

// createDir creates a directory that survives a power failure.
func createDir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

// Profile is the stored data of one profile.
type Profile struct {
	ID       uuid.UUID
	Versions []Version // newest first; the first is the current version
}

// Profiles returns all profiles with data, sorted by id.
func (s *Store) Profiles() ([]Profile, error) {
	entries, err := os.ReadDir(s.opts.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the profiles: %w", err)
	}
	var all []Profile
	for _, e := range entries {
		id, err := uuid.Parse(e.Name())
		if err != nil || !e.IsDir() || id.String() != e.Name() {
			continue
		}
		found, err := s.Versions(id)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		all = append(all, Profile{ID: id, Versions: found})
	}
	return all, nil
}

// Versions returns the versions of a profile, the current one first. It needs no
// Handle. Errors: ErrNotFound.
func (s *Store) Versions(profileID uuid.UUID) ([]Version, error) {
	found, err := listVersions(filepath.Join(s.opts.Dir, profileID.String()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("list the versions: %w", err)
	}
	slices.Reverse(found)
	return found, nil
}

// Verify reads a version completely and returns an error if it is damaged.
func (s *Store) Verify(ctx context.Context, v Version) error {
	if v.Err != nil {
		return v.Err
	}
	return s.verifyFile(ctx, v.path)
}

// removedPrefix marks a profile's directory that is being removed.
const removedPrefix = ".removed-"

// Remove removes all data of a profile. Errors: ErrNotFound, ErrInUse.
func (s *Store) Remove(profileID uuid.UUID) error {
	c, err := s.acquire(profileID, false)
	if err != nil {
		return err
	}
	defer c.Release()
	gone := filepath.Join(s.opts.Dir, removedPrefix+uuid.NewString())
	if err := os.Rename(c.dir, gone); err != nil {
		return fmt.Errorf("remove the profile's data: %w", err)
	}
	return errors.Join(syncDir(s.opts.Dir), os.RemoveAll(gone))
}

// removeLeftovers removes directories whose removal was interrupted by a crash.
func (s *Store) removeLeftovers() error {
	left, _ := filepath.Glob(filepath.Join(s.opts.Dir, removedPrefix+"*"))
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("profile data: %w", err)
		}
	}
	return nil
}

// acquireSlot waits for a slot to pack or unpack. Call release to return it.
func (s *Store) acquireSlot(ctx context.Context) (release func(), err error) {
	return acquireSlot(ctx, s.slots)
}

func acquireSlot(ctx context.Context, slots chan struct{}) (release func(), err error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
