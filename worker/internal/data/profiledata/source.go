package profiledata

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"
)

// storedName marks a profile's directory whose data the object store has, or has newer
// data than.
const storedName = ".stored"

// Source is the data of a profile on this machine, from before the machine had an object
// store. The first version in the object store is made from it.
type Source interface {
	Restore(ctx context.Context, into *os.Root) error
	Release()
}

// Source returns the data of a profile for its first launch with an object store; nil if
// this machine has none, or only data that an object store already had. readOnly: without
// a lock. The caller must release it. Errors: Conflict if the data is in use.
func (l *Local) Source(profileID uuid.UUID, readOnly bool) (Source, error) {
	if found, err := listVersions(l.profileDir(profileID)); errors.Is(err, fs.ErrNotExist) || err == nil && len(found) == 0 {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(l.storedMark(profileID)); err == nil {
		return nil, nil
	}
	if readOnly {
		return l.Reader(profileID), nil
	}
	handle, err := l.Acquire(profileID)
	if err != nil {
		return nil, err
	}
	return handle, nil
}

// MarkStored records that the object store has data of a profile, so that Source does not
// return older data. Without data of the profile it does nothing.
func (l *Local) MarkStored(profileID uuid.UUID) error {
	mark := l.storedMark(profileID)
	file, err := os.OpenFile(mark, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), syncDir(filepath.Dir(mark)))
}

func (l *Local) storedMark(profileID uuid.UUID) string {
	return filepath.Join(l.profileDir(profileID), storedName)
}
