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

// lockDir locks a directory with a lock file, against other processes of this
// machine too. Closing the file, or the end of the process, releases the lock.
// Errors: fs.ErrNotExist if the directory does not exist, ErrInUse.
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
		// The directory may have been removed after the file was opened. The lock would
		// then protect nothing.
		if is, err := isSameFile(file, name); is || err != nil {
			return file, err
		}
		unlock(file)
	}
}

// unlock releases a lock immediately. Close alone would not, while a child process
// that is being started still has the descriptor.
func unlock(file *os.File) {
	_ = unix.Flock(int(file.Fd()), unix.LOCK_UN)
	file.Close()
}

// isSameFile reports whether a name still refers to an open file.
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

// syncDir syncs the entries of a directory to disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
