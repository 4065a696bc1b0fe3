package profiledata

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const lockName = ".lock"

// lockDir locks a directory by a file in it, for this process or any other of
// this machine; closing the file, or the process's death, frees it. Errors:
// fs.ErrNotExist when there is no such directory, ErrInUse.
func lockDir(dir string) (*os.File, error) {
	name := filepath.Join(dir, lockName)
	for {
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			file.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, ErrInUse
			}
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		// The directory may have been removed between the two: then this is the
		// lock of nothing.
		if is, err := isSameFile(file, name); is || err != nil {
			return file, err
		}
		unlock(file)
	}
}

// unlock frees a lock at once: closed alone it would last as long as in a
// process that is being started, and has not let go of it yet.
func unlock(file *os.File) {
	_ = unix.Flock(int(file.Fd()), unix.LOCK_UN)
	file.Close()
}

// isSameFile reports whether a name still leads to an open file.
func isSameFile(file *os.File, name string) (bool, error) {
	opened, err := file.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(opened, named), err
}

// syncDir makes sure that the names in a directory are on the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
