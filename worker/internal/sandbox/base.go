package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// newRoot is where the new root is put together, over a directory that every
// system has and that no room has anything of. Nobody outside the namespace
// sees it.
const newRoot = "/sys"

// readOnly is how a room has the host's files, for as long as they are not
// protected further.
const readOnly = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NODEV

// writableDirs is what a launch may write to, but for its shared memory.
var writableDirs = []string{HomeDir, DataDir, TempDir}

// baseConfig is a room before it is known what for: what all launches have in common
// is made while none waits for it.
type baseConfig struct {
	pieces
	Disk int64

	sockets []int // manager the room's network
}

// setupBase does that.
func (f *baseConfig) setupBase() (err error) {
	defer unix.Umask(unix.Umask(0o022)) // what is made here is for others to read
	if f.Network {
		if err := setupNetwork(); err != nil {
			return err
		}
		if f.sockets, err = createSockets(); err != nil {
			return err
		}
	}
	if f.Mount {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
			return &pieceError{MountNamespace, fmt.Errorf("mounts can't be made our own: %w", err)}
		}
	}
	if f.PID && unix.Unshare(unix.CLONE_NEWUTS) == nil { // the host's name is not the launch's business
		_ = unix.Sethostname([]byte("browser"))
	}
	switch {
	case f.Private:
		return f.setupBaseMounts()
	case f.PID:
		return mountProc("/proc")
	}
	return nil
}

// setupMounts puts into the stage what every launch has there.
func (f *baseConfig) setupBaseMounts() error {
	trees, err := f.collectMounts() // before the stage hides what is in its place
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		mountRoot,
		f.mountWritable,
		f.setupDev,
		f.setupEtc,
		func() error { return attachMounts(trees) },
		f.setupProc,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// collectMounts takes hold of what every room has of the host.
func (f *baseConfig) collectMounts() (trees []clonedMount, err error) {
	add := func(path string, attributes uint64, must bool) {
		if err != nil {
			return
		}
		t, failed := cloneMount(path, path, attributes)
		if failed == nil {
			trees = append(trees, t)
		} else if must || !errors.Is(failed, fs.ErrNotExist) {
			err = failed
		}
	}
	for _, path := range f.hostPaths() {
		if _, other := os.Readlink(path); other == nil && slices.Contains(systemDirs, path) {
			continue // mountRoot's
		}
		add(path, readOnly, false)
	}
	for _, name := range devices {
		add("/dev/"+name, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, true)
	}
	if !f.PID {
		add("/proc", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, true)
	}
	return trees, err
}

// hostPaths is what the room shows of the host, where that has it.
func (f *baseConfig) hostPaths() []string {
	if f.Network {
		return slices.Concat(systemDirs, cacheDirs, configFiles)
	}
	return slices.Concat(systemDirs, cacheDirs, configFiles, nameFiles)
}

// mountRoot makes an empty root, with the links of the host's.
func mountRoot() error {
	if err := unix.Mount("tmpfs", newRoot, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=4m"); err != nil {
		return &pieceError{PrivateFiles, fmt.Errorf("mount a root: %w", err)}
	}
	for _, dir := range systemDirs {
		target, err := os.Readlink(dir)
		if err != nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(newRoot+dir), 0o755); err != nil {
			return &pieceError{PrivateFiles, err}
		}
		if err := os.Symlink(target, newRoot+dir); err != nil {
			return &pieceError{PrivateFiles, err}
		}
	}
	return nil
}

// mountWritable makes what the launch may write: its home, its data and /tmp, on
// one file system of bounded size.
func (f *baseConfig) mountWritable() error {
	if err := f.mountTmpfs("/svc", "mode=0755"); err != nil {
		return err
	}
	for _, dir := range append([]string{"/svc/tmp"}, writableDirs...) {
		if err := os.MkdirAll(newRoot+dir, 0o700); err != nil {
			return &pieceError{PrivateFiles, err}
		}
	}
	if err := unix.Mount(newRoot+"/svc/tmp", newRoot+TempDir, "", unix.MS_BIND, ""); err != nil {
		return &pieceError{PrivateFiles, fmt.Errorf("mount %s: %w", TempDir, err)}
	}
	return nil
}

// mountTmpfs mounts a file system in memory that takes no more than the bound,
// and has no more files than one for each 16 KiB of it.
func (f *baseConfig) mountTmpfs(path, options string) error {
	if err := os.MkdirAll(newRoot+path, 0o755); err != nil {
		return &pieceError{PrivateFiles, err}
	}
	if f.Disk > 0 {
		options += ",size=" + strconv.FormatInt(f.Disk, 10) + ",nr_inodes=" + strconv.FormatInt(max(f.Disk>>14, 1024), 10)
	}
	if err := unix.Mount("tmpfs", newRoot+path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return &pieceError{PrivateFiles, fmt.Errorf("mount %s: %w", path, err)}
	}
	return nil
}

// setupDev makes what is in /dev but for the devices themselves.
func (f *baseConfig) setupDev() error {
	if err := f.mountTmpfs("/dev/shm", "mode=1777"); err != nil {
		return err
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(target, newRoot+"/dev/"+name); err != nil {
			return &pieceError{PrivateFiles, err}
		}
	}
	return nil
}

// setupEtc makes the directories of the room's own files and, in a network of
// its own, says which hosts there are.
func (f *baseConfig) setupEtc() error {
	for _, dir := range []string{"/etc", "/var", "/run"} {
		if err := os.Mkdir(newRoot+dir, 0o755); err != nil {
			return &pieceError{PrivateFiles, err}
		}
	}
	if err := os.Symlink(TempDir, newRoot+"/var/tmp"); err != nil {
		return &pieceError{PrivateFiles, err}
	}
	if !f.Network {
		return nil
	}
	for path, text := range map[string]string{"/etc/hosts": "127.0.0.1 localhost\n", "/etc/resolv.conf": ""} {
		if err := os.WriteFile(newRoot+path, []byte(text), 0o644); err != nil {
			return &pieceError{PrivateFiles, err}
		}
	}
	return nil
}

func (f *baseConfig) setupProc() error {
	if !f.PID {
		return nil
	}
	if err := os.Mkdir(newRoot+"/proc", 0o755); err != nil {
		return &pieceError{PrivateFiles, err}
	}
	return mountProc(newRoot + "/proc")
}

// mountProc shows the processes of the namespace that we are in, and nothing of
// how the host was started.
func mountProc(path string) error {
	if err := unix.Mount("proc", path, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return &pieceError{PIDNamespace, fmt.Errorf("/proc can't be mounted: %w", err)}
	}
	if err := unix.Mount("/dev/null", path+"/cmdline", "", unix.MS_BIND, ""); err != nil {
		return &pieceError{PIDNamespace, fmt.Errorf("/proc/cmdline can't be hidden: %w", err)}
	}
	return nil
}
