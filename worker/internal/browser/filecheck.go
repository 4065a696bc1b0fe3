package browser

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// checkFile returns an error if the browser cannot read a file: fs.ErrNotExist if
// there is none. The path is resolved in the browser's file system with the rights of
// its user. On a kernel without the system calls for it, every file passes.
func (b *Browser) checkFile(path string) error {
	home, root := b.dirs.home, (*os.File)(nil)
	if b.sandbox != nil && b.sandbox.Root() != nil {
		home, root = sandbox.HomeDir, b.sandbox.Root()
	}
	if !filepath.IsAbs(path) {
		path = home + "/" + path // not cleaned: a link may precede ..
	}
	checked := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		if err := becomeReader(b.uid); err != nil {
			b.l.log.Error("failed to check a file as the browser's user", "launchId", b.LaunchID, "error", err)
			checked <- nil
			return
		}
		checked <- checkReadable(root, path)
	}()
	return <-checked
}

// becomeReader gives this thread the file access rights of a user; -1 is the worker's
// own.
func becomeReader(uid int) error {
	if uid < 0 {
		return nil
	}
	if err := unix.Setgroups(nil); err != nil {
		return fmt.Errorf("groups: %w", err)
	}
	// These calls report no errors, but return the previous id.
	_, _ = unix.SetfsgidRetGid(uid)
	_, _ = unix.SetfsuidRetUid(uid)
	if now, _ := unix.SetfsuidRetUid(uid); now != uid {
		return errors.New("the file system user cannot be changed")
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}

// checkReadable checks a path with the rights of this thread. Links cannot lead out of
// the root directory, unless it is nil.
func checkReadable(root *os.File, path string) (err error) {
	if root == nil {
		return checkReadableAt(unix.AT_FDCWD, path, unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	}
	held, err := root.SyscallConn()
	if err != nil {
		return nil // the browser has ended
	}
	_ = held.Control(func(fd uintptr) {
		err = checkReadableAt(int(fd), path, unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
	})
	return err
}

func checkReadableAt(root int, path string, how unix.OpenHow) error {
	fd, err := unix.Openat2(root, path, &how)
	if err == nil {
		defer func() { _ = unix.Close(fd) }()
		err = unix.Faccessat(fd, "", unix.R_OK, unix.AT_EMPTY_PATH|unix.AT_EACCESS)
	}
	switch {
	case err == nil, errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM), errors.Is(err, unix.EINVAL):
		return nil
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENAMETOOLONG):
		return fs.ErrNotExist
	}
	return os.NewSyscallError("open", err)
}
