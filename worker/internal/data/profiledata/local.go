package profiledata

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
)

// LocalOptions configures a Local. All but SaveTime and Logger are required.
type LocalOptions struct {
	Dir      string        // of all profiles; created on demand
	Versions int           // kept versions of each profile, at least 1
	MaxBytes int64         // unpacked size of a version
	SaveTime time.Duration // bounds a Save once it has started; 0: no limit
	Clock    clock.Clock
	Logger   *slog.Logger // discarded when nil
}

// Local keeps the profile data of this machine, in one directory for each profile:
//
//	<profile id>/
//	  .lock                locked while a launch or the operator uses the profile
//	  <version id>/        the objects of a version, as in a Store
//	  7 -> <version id>    the list of versions; the highest number is the current one
//	  6 -> <version id>
//	  5.bad -> <version id>   a damaged version, quarantined for the operator
//	  saving -> <version id>  a version being written
//
// A version gets its number only when it is complete, synced and verified, and an old
// version is removed only after a newer one exists. So after a crash at any time the
// last saved version is available. Several Locals, also in several processes, can use one
// directory.
type Local struct {
	dir   string
	store *Store
	box   *box
}

// ErrInUse means that a launch or another command uses the profile's data.
var ErrInUse = errors.New("the profile's data is in use")

// ErrNotFound means that this machine has no data of a profile.
var ErrNotFound = errors.New("this machine has no data of this profile")

// OpenLocal returns the data in a directory.
func OpenLocal(opts LocalOptions) (*Local, error) {
	if opts.Versions < 1 || opts.MaxBytes < 1 {
		return nil, errors.New("profile data: Versions and MaxBytes must be at least 1")
	}
	// The key is no secret: who can read the directory could read a key in it too. The
	// encryption detects damage.
	b, err := newBox(make([]byte, keySize))
	if err != nil {
		return nil, err
	}
	b.directory = ""
	l := &Local{dir: opts.Dir, box: b, store: newStore(Options{
		Versions: opts.Versions, MaxBytes: opts.MaxBytes, SaveTime: opts.SaveTime, Clock: opts.Clock, Logger: opts.Logger,
	}, fileObjects{opts.Dir})}
	return l, l.removeLeftovers()
}

func (l *Local) profileDir(profileID uuid.UUID) string {
	return filepath.Join(l.dir, profileID.String())
}

// Acquire gives a launch exclusive access to a profile's data until Release or the
// end of the process. Errors: Conflict if the data is in use.
func (l *Local) Acquire(profileID uuid.UUID) (*LocalHandle, error) {
	h, err := l.acquire(profileID, true)
	if errors.Is(err, ErrInUse) {
		return nil, fault.Wrap(err, fault.Conflict, "The profile keeps its data and is already running on this worker.")
	}
	if err != nil {
		return nil, fmt.Errorf("acquire the profile's data: %w", err)
	}
	return h, nil
}

// Reader returns the data of a profile for a launch that saves nothing. It needs no lock:
// launches can use the data meanwhile.
func (l *Local) Reader(profileID uuid.UUID) *LocalHandle {
	return &LocalHandle{dir: l.profileDir(profileID), readOnly: true, objects: l.store.handle(Use{ProfileID: profileID}, l.box)}
}

// acquire locks a profile's directory, creates it if requested, and removes what an
// interrupted save left.
func (l *Local) acquire(profileID uuid.UUID, create bool) (*LocalHandle, error) {
	h := l.Reader(profileID)
	h.readOnly = false
	var err error
	h.lock, err = lockDir(h.dir)
	for create && errors.Is(err, fs.ErrNotExist) { // retry if it was removed concurrently
		if err := createDir(h.dir); err != nil {
			return nil, err
		}
		h.lock, err = lockDir(h.dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	if err := h.discardSaving(); err != nil {
		h.Release()
		return nil, err
	}
	return h, nil
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

// removedPrefix marks a profile's directory that is being removed.
const removedPrefix = ".removed-"

// Remove removes all data of a profile. Errors: ErrNotFound, ErrInUse.
func (l *Local) Remove(profileID uuid.UUID) error {
	h, err := l.acquire(profileID, false)
	if err != nil {
		return err
	}
	defer h.Release()
	removed := filepath.Join(l.dir, removedPrefix+uuid.NewString())
	if err := os.Rename(h.dir, removed); err != nil {
		return fmt.Errorf("remove the profile's data: %w", err)
	}
	return errors.Join(syncDir(l.dir), os.RemoveAll(removed))
}

// removeLeftovers removes directories whose removal was interrupted by a crash.
func (l *Local) removeLeftovers() error {
	left, _ := filepath.Glob(filepath.Join(l.dir, removedPrefix+"*"))
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("profile data: %w", err)
		}
	}
	return nil
}
