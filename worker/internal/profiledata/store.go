// Package profiledata keeps the browser data of profiles from launch to launch:
// versioned snapshots on this machine, one directory for each profile.
//
//	<profile id>/
//	  .lock          held while a launch, or the operator, works on the profile
//	  7.tar.zst      a version; the highest number is the current one
//	  6.tar.zst
//	  5.tar.zst.bad  one that could not be read, set aside for the operator
//	  saving.tmp     a version in the making
//
// A version appears under its name only when it is whole, on the disk and was
// read back, and none is removed before a newer one is there. So whenever the
// worker dies, the newest good state is the last one that was saved.
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
	Dir      string        // of all profiles; made by the first claim
	Versions int           // how many are kept of each profile, at least 1
	MaxBytes int64         // of what one snapshot holds, unpacked
	SaveTime time.Duration // bounds a Save, from when it is its turn; 0 for no bound
	Clock    clock.Clock
	Logger   *slog.Logger // discarded when nil
}

// Store holds the data of the profiles of this machine. Any number of stores,
// in any number of processes, may work on one directory.
type Store struct {
	opts  Options
	slots chan struct{} // room for those that pack and unpack at the same time
}

// maxConcurrent bounds how many snapshots are packed or unpacked at a time: each
// takes a processor and some megabytes of memory.
const maxConcurrent = 2

// ErrInUse means that a launch, or another command, has the profile's data.
var ErrInUse = errors.New("the profile's data is in use")

// ErrNotFound means that nothing is kept of a profile on this machine.
var ErrNotFound = errors.New("nothing is kept of this profile on this machine")

// Open returns the store in a directory.
func Open(opts Options) (*Store, error) {
	if opts.Versions < 1 || opts.MaxBytes < 1 {
		return nil, errors.New("profile data: at least one version of at least one byte must be kept")
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{opts: opts, slots: make(chan struct{}, maxConcurrent)}
	return s, s.removeLeftovers()
}

// Handle gives a profile's data to one launch, until it is released or the
// process dies. Errors: Conflict while someone else has it.
func (s *Store) Acquire(profileID uuid.UUID) (*Handle, error) {
	c, err := s.acquire(profileID, true)
	if errors.Is(err, ErrInUse) {
		return nil, fault.Wrap(err, fault.Conflict, "The profile keeps its data and is running already on this worker.")
	}
	if err != nil {
		return nil, fmt.Errorf("claim the profile's data: %w", err)
	}
	return c, nil
}

// acquire locks a profile's directory, which it makes when told to, and removes
// what a crash left there.
func (s *Store) acquire(profileID uuid.UUID, create bool) (*Handle, error) {
	dir := filepath.Join(s.opts.Dir, profileID.String())
	lock, err := lockDir(dir)
	for create && errors.Is(err, fs.ErrNotExist) { // again when it was removed meanwhile
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

// createDir makes a directory that is there after a power failure too.
func createDir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

// Profile is what is kept of one profile.
type Profile struct {
	ID       uuid.UUID
	Versions []Version // the newest, which is the current one, first
}

// Profiles lists those of which something is kept, by id.
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

// Versions lists what is kept of a profile, the current version first. It needs
// no claim. Errors: ErrNotFound.
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

// Verify reads a version from end to end and says what is wrong with it.
func (s *Store) Verify(ctx context.Context, v Version) error {
	if v.Err != nil {
		return v.Err
	}
	return s.verifyFile(ctx, v.path)
}

// removedPrefix marks a profile's directory that is being removed.
const removedPrefix = ".removed-"

// Remove removes everything that is kept of a profile. Errors: ErrNotFound,
// ErrInUse.
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

// removeLeftovers removes what a crash left of removed profiles.
func (s *Store) removeLeftovers() error {
	left, _ := filepath.Glob(filepath.Join(s.opts.Dir, removedPrefix+"*"))
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("profile data: %w", err)
		}
	}
	return nil
}

// acquireSlot waits for room to pack or unpack; done gives it back.
func (s *Store) acquireSlot(ctx context.Context) (done func(), err error) {
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
