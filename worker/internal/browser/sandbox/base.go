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

// newRoot is where the new root is mounted before pivot_root. Every system has
// this directory and no sandbox uses it. The mount is visible only in the new
// mount namespace.
const newRoot = "/sys"

// readOnly are the mount attributes of the host's files in a sandbox.
const readOnly = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NODEV

// shared are the mount attributes of the directory that a launch shares with the worker.
const shared = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC

// writableDirs are the directories that a launch may write to, in addition to its
// shared memory.
var writableDirs = []string{HomeDir, DataDir, TempDir}

// baseConfig is the part of a sandbox that does not depend on its launch. It is
// set up in advance, so that a launch does not wait for it.
type baseConfig struct {
	isolationParts
	Canary               bool // goes without the pieces that the host denies, as far as it can
	Disk                 int64
	WorkerUID, WorkerGID int

	sockets []int             // of the sandbox's network
	denied  map[string]string // errors by piece, of a canary
}

// deny records the error because of which a canary goes without a piece. It may be nil.
func (c *baseConfig) deny(piece, operation string, err error) {
	if err == nil {
		return
	}
	if c.denied == nil {
		c.denied = map[string]string{}
	}
	c.denied[piece] = operation + ": " + err.Error()
}

// setupBase sets up the network, the mounts and the host name.
func (c *baseConfig) setupBase() (err error) {
	if !c.Namespaces {
		return nil
	}
	defer unix.Umask(unix.Umask(0o022)) // other users must be able to read these files
	if c.inUserNamespace() && c.WorkerUID != 0 {
		if err := c.mapUser(); err != nil {
			return fmt.Errorf("user namespace: %w", err)
		}
	}
	if c.connects() {
		if err := setupNetwork(); err != nil {
			return err
		}
		if c.sockets, err = createSockets(); err != nil {
			return err
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return &pieceError{MountNamespace, fmt.Errorf("make mounts private: %w", err)}
	}
	if unix.Unshare(unix.CLONE_NEWUTS) == nil { // hides the host name from the launch
		_ = unix.Sethostname([]byte("browser"))
	}
	return c.setupBaseMounts()
}

// mapUser maps the worker's user into the user namespace of this process. The worker
// cannot do it where nobody can read its program, as in the image: the kernel then gives
// the files of both processes in /proc to root.
func (c *baseConfig) mapUser() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil { // this process has no secrets
		return err
	}
	for _, file := range []struct{ name, text string }{
		{"setgroups", "deny"},
		{"gid_map", fmt.Sprintf("%d %[1]d 1", c.WorkerGID)},
		{"uid_map", fmt.Sprintf("%d %[1]d 1", c.WorkerUID)},
	} {
		if err := os.WriteFile("/proc/self/"+file.name, []byte(file.text), 0); err != nil {
			return err
		}
	}
	return nil
}

// setupBaseMounts mounts what every launch needs below newRoot.
func (c *baseConfig) setupBaseMounts() error {
	trees, err := collectMounts() // before the new root hides these paths
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		mountRoot,
		c.mountWritable,
		c.setupDev,
		setupEtc,
		func() error { return attachMounts(trees) },
		c.setupProc,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// collectMounts clones the mounts of the host that every sandbox shows.
func collectMounts() (trees []clonedMount, err error) {
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
	for _, path := range hostPaths() {
		if _, other := os.Readlink(path); other == nil && slices.Contains(systemDirs, path) {
			continue // mountRoot creates the link
		}
		add(path, readOnly, false)
	}
	for _, name := range devices {
		add("/dev/"+name, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, true)
	}
	return trees, err
}

// hostPaths lists the host paths that every sandbox with private files shows, where they
// exist.
func hostPaths() []string { return slices.Concat(systemDirs, cacheDirs, configFiles) }

// readablePaths lists the host paths that a launch may be able to read.
func readablePaths() []string { return append(hostPaths(), browserDirs...) }

// mountRoot mounts an empty root and copies the host's symbolic links into it.
func mountRoot() error {
	if err := unix.Mount("tmpfs", newRoot, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=4m"); err != nil {
		return &pieceError{PrivateFiles, fmt.Errorf("mount root: %w", err)}
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

// mountWritable mounts the launch's home, its data and /tmp on one file system
// of limited size.
func (c *baseConfig) mountWritable() error {
	if err := c.mountTmpfs("/svc", "mode=0755"); err != nil {
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

// mountTmpfs mounts a tmpfs with the disk limit and one inode for each 16 KiB of
// it.
func (c *baseConfig) mountTmpfs(path, options string) error {
	if err := os.MkdirAll(newRoot+path, 0o755); err != nil {
		return &pieceError{PrivateFiles, err}
	}
	if c.Disk > 0 {
		options += ",size=" + strconv.FormatInt(c.Disk, 10) + ",nr_inodes=" + strconv.FormatInt(max(c.Disk>>14, 1024), 10)
	}
	if err := unix.Mount("tmpfs", newRoot+path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return &pieceError{PrivateFiles, fmt.Errorf("mount %s: %w", path, err)}
	}
	return nil
}

// setupDev creates the contents of /dev except for the devices.
func (c *baseConfig) setupDev() error {
	if err := c.mountTmpfs("/dev/shm", "mode=1777"); err != nil {
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

// setupEtc creates the directories of the sandbox's own files, and its hosts and
// resolv.conf files.
func setupEtc() error {
	for _, dir := range []string{"/etc", "/var", "/run"} {
		if err := os.Mkdir(newRoot+dir, 0o755); err != nil {
			return &pieceError{PrivateFiles, err}
		}
	}
	if err := os.Symlink(TempDir, newRoot+"/var/tmp"); err != nil {
		return &pieceError{PrivateFiles, err}
	}
	for path, text := range map[string]string{"/etc/hosts": "127.0.0.1 localhost\n", "/etc/resolv.conf": ""} {
		if err := os.WriteFile(newRoot+path, []byte(text), 0o644); err != nil {
			return &pieceError{PrivateFiles, err}
		}
	}
	return nil
}

// setupProc mounts /proc of the PID namespace, or the worker's, and hides the host's boot
// parameters.
func (c *baseConfig) setupProc() error {
	path := newRoot + "/proc"
	if err := os.Mkdir(path, 0o755); err != nil {
		return &pieceError{PrivateFiles, err}
	}
	if !c.SharedProc {
		err := unix.Mount("proc", path, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
		if err != nil && !c.Canary {
			return fmt.Errorf("mount /proc: %w", err)
		}
		c.deny(ProcessList, "mount /proc", err)
		c.SharedProc = err != nil
	}
	if c.SharedProc {
		tree, err := cloneMount("/proc", "/proc", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
		if err != nil {
			return err
		}
		if err := attachMounts([]clonedMount{tree}); err != nil {
			return err
		}
	}
	if err := unix.Mount("/dev/null", path+"/cmdline", "", unix.MS_BIND, ""); err != nil {
		return &pieceError{PIDNamespace, fmt.Errorf("hide /proc/cmdline: %w", err)}
	}
	return nil
}
