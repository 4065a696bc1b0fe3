package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// The host paths that a browser may read. Missing paths are skipped. Of /usr only
// the directories of system packages are visible; of /usr/local only fonts and
// certificates that an operator adds.
var (
	systemDirs = []string{
		"/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/share",
		"/usr/local/share/fonts", "/usr/local/share/ca-certificates",
		"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
	}
	// Libraries, name resolution, fonts and certificates.
	configFiles = []string{
		"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf",
		"/etc/protocols", "/etc/services", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/pki/tls/certs", "/etc/pki/tls/cert.pem",
		"/etc/pki/ca-trust", "/etc/crypto-policies", "/etc/fonts", "/etc/gtk-3.0", "/etc/mime.types", "/etc/os-release", "/etc/locale.alias",
		"/etc/vulkan", "/etc/glvnd", "/etc/drirc",
	}
	// Chromium's configuration, by distribution and edition. A browser with a policy sees copies.
	browserDirs = []string{"/etc/chromium", "/etc/chromium-browser", "/etc/opt/chrome", "/etc/opt/chrome_for_testing"}
	// Visible only to a launch without namespaces, which uses the host's network.
	nameFiles = []string{"/etc/hosts", "/etc/resolv.conf"}

	cacheDirs = []string{"/var/cache/fontconfig"} // without this cache, each start scans all fonts
	devices   = []string{"null", "zero", "full", "random", "urandom"}
)

// clonedMount is a cloned mount of a host path that is not attached yet.
type clonedMount struct {
	fd     int
	target string
	dir    bool
}

// setupMounts prepares the mounts for the launch and pivots into them. It
// returns descriptors of the sandbox's root and of the launch's data directory.
func (r *setupRequest) setupMounts() (dirs []int, err error) {
	for _, step := range []func() error{
		r.chownWritable,
		r.writeUser,
		r.writeTimezone,
		r.refreshHostFiles,
		r.writePolicy,
		r.bindFiles,
		r.linkDownloads,
		disableSetuid,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	for _, path := range []string{"/", DataDir} {
		fd, err := unix.Open(newRoot+path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, &pieceError{PrivateFiles, fmt.Errorf("open %s: %w", path, err)}
		}
		dirs = append(dirs, fd)
	}
	return dirs, pivotRoot()
}

// chownWritable gives the launch's user its writable directories.
func (r *setupRequest) chownWritable() error {
	if r.UID < 0 {
		return nil
	}
	for _, dir := range writableDirs {
		if err := os.Chown(newRoot+dir, r.UID, r.UID); err != nil {
			return &pieceError{PrivateFiles, err}
		}
	}
	return nil
}

// writeUser writes passwd and group with the sandbox's only user.
func (r *setupRequest) writeUser() error {
	uid, gid := r.UID, r.UID
	if uid < 0 {
		uid, gid = os.Getuid(), os.Getgid()
	}
	for path, text := range map[string]string{
		"/etc/passwd": fmt.Sprintf("browser:x:%d:%d::%s:/usr/sbin/nologin\n", uid, gid, HomeDir),
		"/etc/group":  fmt.Sprintf("browser:x:%d:\n", gid),
	} {
		if err := os.WriteFile(newRoot+path, []byte(text), 0o644); err != nil {
			return &pieceError{PrivateFiles, err}
		}
	}
	return nil
}

// writeTimezone links /etc/localtime to the requested time zone, or to the
// host's.
func (r *setupRequest) writeTimezone() error {
	const file = "/etc/localtime"
	target := zoneinfoDir + r.Timezone
	if r.Timezone == "" {
		var err error
		if target, err = filepath.EvalSymlinks(file); errors.Is(err, fs.ErrNotExist) {
			return nil // the host uses UTC
		}
	}
	if strings.HasPrefix(target, zoneinfoDir) {
		if err := os.Symlink(target, newRoot+file); err != nil {
			return &pieceError{PrivateFiles, err}
		}
		return nil
	}
	raw, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(newRoot+file, raw, 0o644) //nolint:gosec // the path is a constant
	}
	if err != nil {
		return &pieceError{PrivateFiles, fmt.Errorf("time zone: %w", err)}
	}
	return nil
}

// refreshHostFiles replaces mounts of files that changed on the host since the
// base setup. Most programs replace a file in /etc instead of writing to it.
func (r *setupRequest) refreshHostFiles() error {
	var trees []clonedMount
	for _, path := range hostPaths() {
		now, hostErr := os.Stat(path)
		mount, missing := os.Stat(newRoot + path)
		if missing == nil {
			if hostErr == nil && os.SameFile(now, mount) {
				continue
			}
			if err := removeHostFile(path); err != nil {
				return err
			}
		}
		if hostErr != nil {
			continue
		}
		t, err := cloneMount(path, path, readOnly)
		if err != nil {
			return err
		}
		trees = append(trees, t)
	}
	return attachMounts(trees)
}

// policyFile is where Chromium reads the policy of a launch, below a directory of browserDirs.
// For the same policy, the last file in the order of names takes precedence.
const policyFile = "/policies/managed/zzz-svc.json"

// writePolicy makes copies of the host's configuration of Chromium, with the policy of the
// launch, which the launch cannot change.
func (r *setupRequest) writePolicy() error {
	if r.Policy == nil {
		return nil
	}
	var trees []clonedMount
	for _, dir := range browserDirs {
		err := copyReadable(newRoot+dir, dir)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(newRoot+dir+policyFile), 0o755)
		}
		if err == nil {
			err = os.WriteFile(newRoot+dir+policyFile, r.Policy, 0o644)
		}
		if err != nil {
			return &pieceError{PrivateFiles, fmt.Errorf("policy: %w", err)}
		}
		t, err := cloneMount(newRoot+dir, dir, readOnly)
		if err != nil {
			return err
		}
		trees = append(trees, t)
	}
	return attachMounts(trees)
}

// copyReadable copies the files of a directory that exist and that this user can read.
func copyReadable(target, source string) error {
	return filepath.WalkDir(source+"/", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&^(fs.ModeDir|fs.ModeSymlink) != 0 { // a pipe or the like
			return nil
		}
		destination := target + strings.TrimPrefix(path, source)
		if entry.IsDir() {
			return os.MkdirAll(destination, 0o755) //nolint:gosec // below the new root
		}
		raw, err := os.ReadFile(path) //nolint:gosec // only root of the host writes there
		if err != nil {
			return nil //nolint:nilerr // the browser could not read it either
		}
		return os.WriteFile(destination, raw, 0o644) //nolint:gosec // below the new root
	})
}

// removeHostFile unmounts a host file and removes its mount point.
func removeHostFile(path string) error {
	if err := unix.Unmount(newRoot+path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) { // a link
		return &pieceError{PrivateFiles, fmt.Errorf("unmount %s: %w", path, err)}
	}
	if err := os.Remove(newRoot + path); err != nil {
		return &pieceError{PrivateFiles, err}
	}
	return nil
}

// bindFiles mounts the files that only this launch needs.
func (r *setupRequest) bindFiles() error {
	var trees []clonedMount
	for _, bind := range r.Binds {
		if slices.ContainsFunc(systemDirs, func(dir string) bool { return isWithin(bind.To, dir) }) {
			continue
		}
		attributes := uint64(readOnly)
		if bind.Writable {
			attributes = shared
		}
		t, err := cloneMount(bind.From, bind.To, attributes)
		if err != nil {
			return err
		}
		trees = append(trees, t)
	}
	return attachMounts(trees)
}

// linkDownloads makes the default directory of downloads one on the disk.
func (r *setupRequest) linkDownloads() error {
	for _, bind := range r.Binds {
		if bind.To != FilesDir {
			continue
		}
		if err := os.Symlink(DownloadsDir, newRoot+HomeDir+"/Downloads"); err != nil {
			return &pieceError{PrivateFiles, err}
		}
	}
	return nil
}

// disableSetuid mounts everything nosuid.
func disableSetuid() error {
	err := unix.MountSetattr(unix.AT_FDCWD, newRoot, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID})
	if err != nil {
		return &pieceError{PrivateFiles, fmt.Errorf("set mounts nosuid: %w", err)}
	}
	return nil
}

// cloneMount clones a mount with its submounts and restricts the clone.
func cloneMount(source, target string, attributes uint64) (clonedMount, error) {
	info, err := os.Stat(source)
	if err != nil {
		return clonedMount{}, &pieceError{PrivateFiles, err}
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return clonedMount{}, &pieceError{PrivateFiles, fmt.Errorf("clone the mount of %s: %w", source, err)}
	}
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attributes})
	if err != nil {
		return clonedMount{}, &pieceError{PrivateFiles, fmt.Errorf("set attributes of the mount of %s: %w", source, err)}
	}
	return clonedMount{fd: fd, target: target, dir: info.IsDir()}, nil
}

// attachMounts moves cloned mounts to the new root.
func attachMounts(trees []clonedMount) error {
	for _, t := range trees {
		err := mountPoint(newRoot+t.target, t.dir)
		if err == nil {
			err = unix.MoveMount(t.fd, "", unix.AT_FDCWD, newRoot+t.target, unix.MOVE_MOUNT_F_EMPTY_PATH)
		}
		_ = unix.Close(t.fd)
		if err != nil {
			return &pieceError{PrivateFiles, fmt.Errorf("mount %s: %w", t.target, err)}
		}
	}
	return nil
}

// mountPoint creates a directory or an empty file, with its parent directories.
func mountPoint(path string, dir bool) error {
	if dir {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o444)
	if err != nil {
		return err
	}
	return f.Close()
}

// pivotRoot makes newRoot the root and unmounts the host's root.
func pivotRoot() error {
	if err := unix.Chdir(newRoot); err != nil {
		return &pieceError{PrivateFiles, err}
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return &pieceError{PrivateFiles, fmt.Errorf("pivot root: %w", err)}
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return &pieceError{PrivateFiles, fmt.Errorf("unmount the host's root: %w", err)}
	}
	if err := unix.Chdir("/"); err != nil {
		return &pieceError{PrivateFiles, err}
	}
	return nil
}
