package isolation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// makeRoot makes an empty root, with the links of the host's.
func (o *order) makeRoot() error {
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
func (o *order) makeFiles() error {
	if err := o.mountTmpfs("/svc", "mode=0755"); err != nil {
		return err
	}
	for _, dir := range []string{Home, Data, "/svc/tmp", Temp} {
		if err := os.MkdirAll(stage+dir, 0o700); err != nil {
			return &failure{PrivateFiles, err}
		}
		if o.UID < 0 {
			continue
		}
		if err := os.Chown(stage+dir, o.UID, o.UID); err != nil {
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
func (o *order) mountTmpfs(path, options string) error {
	if err := os.MkdirAll(stage+path, 0o755); err != nil {
		return &failure{PrivateFiles, err}
	}
	if o.Disk > 0 {
		options += ",size=" + strconv.FormatInt(o.Disk, 10) + ",nr_inodes=" + strconv.FormatInt(max(o.Disk>>14, 1024), 10)
	}
	if err := unix.Mount("tmpfs", stage+path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return &failure{PrivateFiles, fmt.Errorf("mount %s: %w", path, err)}
	}
	return nil
}

// makeDevices makes what is in /dev but for the devices themselves.
func (o *order) makeDevices() error {
	if err := o.mountTmpfs("/dev/shm", "mode=1777"); err != nil {
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

// makeConfig writes the files of /etc that are the room's own: the users and, in
// a network of its own, the hosts that it knows, and the time zone.
func (o *order) makeConfig() error {
	uid, gid := o.UID, o.UID
	if uid < 0 {
		uid, gid = os.Getuid(), os.Getgid()
	}
	files := map[string]string{
		"/etc/passwd": fmt.Sprintf("browser:x:%d:%d::%s:/usr/sbin/nologin\n", uid, gid, Home),
		"/etc/group":  fmt.Sprintf("browser:x:%d:\n", gid),
	}
	if o.Network {
		files["/etc/hosts"], files["/etc/resolv.conf"] = "127.0.0.1 localhost\n", ""
	}
	for _, dir := range []string{"/etc", "/var", "/run"} {
		if err := os.Mkdir(stage+dir, 0o755); err != nil {
			return &failure{PrivateFiles, err}
		}
	}
	for path, text := range files {
		if err := os.WriteFile(stage+path, []byte(text), 0o644); err != nil {
			return &failure{PrivateFiles, err}
		}
	}
	if err := os.Symlink(Temp, stage+"/var/tmp"); err != nil {
		return &failure{PrivateFiles, err}
	}
	return o.makeZone()
}

// makeZone links /etc/localtime to the zone, or to the host's.
func (o *order) makeZone() error {
	const file = "/etc/localtime"
	target := zoneinfo + o.Zone
	if o.Zone == "" {
		var err error
		if target, err = filepath.EvalSymlinks(file); errors.Is(err, fs.ErrNotExist) {
			return nil // the host has none: it is UTC
		}
	}
	if strings.HasPrefix(target, zoneinfo) {
		if err := os.Symlink(target, stage+file); err != nil {
			return &failure{PrivateFiles, err}
		}
		return nil
	}
	raw, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(stage+file, raw, 0o644) //nolint:gosec // the path is our own
	}
	if err != nil {
		return &failure{PrivateFiles, fmt.Errorf("time zone: %w", err)}
	}
	return nil
}
