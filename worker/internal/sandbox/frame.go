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

// stage is where the new root is put together, over a directory that every
// system has and that no room has anything of. Nobody outside the namespace
// sees it.
const stage = "/sys"

// readOnly is how a room has the host's files, for as long as they are not
// protected further.
const readOnly = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NODEV

// writable is what a launch may write to, but for its shared memory.
var writable = []string{Home, Data, Temp}

// frame is a room before it is known what for: what all launches have in common
// is made while none waits for it.
type frame struct {
	pieces
	Disk int64

	sockets []int // of the room's network
}

// build does that.
func (f *frame) build() (err error) {
	defer unix.Umask(unix.Umask(0o022)) // what is made here is for others to read
	if f.Network {
		if err := makeNetwork(); err != nil {
			return err
		}
		if f.sockets, err = makeSockets(); err != nil {
			return err
		}
	}
	if f.Mount {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
			return &failure{MountNamespace, fmt.Errorf("mounts can't be made our own: %w", err)}
		}
	}
	if f.PID && unix.Unshare(unix.CLONE_NEWUTS) == nil { // the host's name is not the launch's business
		_ = unix.Sethostname([]byte("browser"))
	}
	switch {
	case f.Private:
		return f.furnish()
	case f.PID:
		return mountProc("/proc")
	}
	return nil
}

// furnish puts into the stage what every launch has there.
func (f *frame) furnish() error {
	trees, err := f.collect() // before the stage hides what is in its place
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		makeRoot,
		f.makeFiles,
		f.makeDevices,
		f.makeConfig,
		func() error { return attach(trees) },
		f.makeProc,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// collect takes hold of what every room has of the host.
func (f *frame) collect() (trees []tree, err error) {
	add := func(path string, attributes uint64, must bool) {
		if err != nil {
			return
		}
		t, failed := take(path, path, attributes)
		if failed == nil {
			trees = append(trees, t)
		} else if must || !errors.Is(failed, fs.ErrNotExist) {
			err = failed
		}
	}
	for _, path := range f.shown() {
		if _, other := os.Readlink(path); other == nil && slices.Contains(systemDirs, path) {
			continue // makeRoot's
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

// shown is what the room shows of the host, where that has it.
func (f *frame) shown() []string {
	if f.Network {
		return slices.Concat(systemDirs, caches, configFiles)
	}
	return slices.Concat(systemDirs, caches, configFiles, nameFiles)
}

// makeRoot makes an empty root, with the links of the host's.
func makeRoot() error {
	if err := unix.Mount("tmpfs", stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=4m"); err != nil {
		return &failure{PrivateFiles, fmt.Errorf("mount a root: %w", err)}
	}
	for _, dir := range systemDirs {
		target, err := os.Readlink(dir)
		if err != nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(stage+dir), 0o755); err != nil {
			return &failure{PrivateFiles, err}
		}
		if err := os.Symlink(target, stage+dir); err != nil {
			return &failure{PrivateFiles, err}
		}
	}
	return nil
}

// makeFiles makes what the launch may write: its home, its data and /tmp, on
// one file system of bounded size.
func (f *frame) makeFiles() error {
	if err := f.mountTmpfs("/svc", "mode=0755"); err != nil {
		return err
	}
	for _, dir := range append([]string{"/svc/tmp"}, writable...) {
		if err := os.MkdirAll(stage+dir, 0o700); err != nil {
			return &failure{PrivateFiles, err}
		}
	}
	if err := unix.Mount(stage+"/svc/tmp", stage+Temp, "", unix.MS_BIND, ""); err != nil {
		return &failure{PrivateFiles, fmt.Errorf("mount %s: %w", Temp, err)}
	}
	return nil
}

// mountTmpfs mounts a file system in memory that takes no more than the bound,
// and has no more files than one for each 16 KiB of it.
func (f *frame) mountTmpfs(path, options string) error {
	if err := os.MkdirAll(stage+path, 0o755); err != nil {
		return &failure{PrivateFiles, err}
	}
	if f.Disk > 0 {
		options += ",size=" + strconv.FormatInt(f.Disk, 10) + ",nr_inodes=" + strconv.FormatInt(max(f.Disk>>14, 1024), 10)
	}
	if err := unix.Mount("tmpfs", stage+path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return &failure{PrivateFiles, fmt.Errorf("mount %s: %w", path, err)}
	}
	return nil
}

// makeDevices makes what is in /dev but for the devices themselves.
func (f *frame) makeDevices() error {
	if err := f.mountTmpfs("/dev/shm", "mode=1777"); err != nil {
		return err
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(target, stage+"/dev/"+name); err != nil {
			return &failure{PrivateFiles, err}
		}
	}
	return nil
}

// makeConfig makes the directories of the room's own files and, in a network of
// its own, says which hosts there are.
func (f *frame) makeConfig() error {
	for _, dir := range []string{"/etc", "/var", "/run"} {
		if err := os.Mkdir(stage+dir, 0o755); err != nil {
			return &failure{PrivateFiles, err}
		}
	}
	if err := os.Symlink(Temp, stage+"/var/tmp"); err != nil {
		return &failure{PrivateFiles, err}
	}
	if !f.Network {
		return nil
	}
	for path, text := range map[string]string{"/etc/hosts": "127.0.0.1 localhost\n", "/etc/resolv.conf": ""} {
		if err := os.WriteFile(stage+path, []byte(text), 0o644); err != nil {
			return &failure{PrivateFiles, err}
		}
	}
	return nil
}

func (f *frame) makeProc() error {
	if !f.PID {
		return nil
	}
	if err := os.Mkdir(stage+"/proc", 0o755); err != nil {
		return &failure{PrivateFiles, err}
	}
	return mountProc(stage + "/proc")
}

// mountProc shows the processes of the namespace that we are in, and nothing of
// how the host was started.
func mountProc(path string) error {
	if err := unix.Mount("proc", path, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return &failure{PIDNamespace, fmt.Errorf("/proc can't be mounted: %w", err)}
	}
	if err := unix.Mount("/dev/null", path+"/cmdline", "", unix.MS_BIND, ""); err != nil {
		return &failure{PIDNamespace, fmt.Errorf("/proc/cmdline can't be hidden: %w", err)}
	}
	return nil
}
