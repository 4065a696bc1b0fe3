package isolation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// What a browser may see of the host, all of it read-only; what is missing is
// left out. Of /usr that is what packages bring, and of /usr/local what an
// operator adds for browsers: applications and their settings live in the rest.
var (
	systemDirs = []string{
		"/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/share",
		"/usr/local/share/fonts", "/usr/local/share/ca-certificates",
		"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
	}
	// Programs find libraries, names and fonts by these, and Chromium its
	// policies and what it may trust.
	configFiles = []string{
		"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives",
		"nsswitch.conf", "host.conf", "gai.conf", "protocols", "services",
		"ssl/certs", "ssl/openssl.cnf", "ca-certificates", "pki/tls/certs", "pki/tls/cert.pem", "pki/ca-trust", "crypto-policies",
		"fonts", "gtk-3.0", "mime.types", "os-release", "locale.alias", "vulkan", "glvnd", "drirc",
		"chromium", "chromium-browser", "opt/chrome",
	}
	// Where there is no network but the host's, names are resolved as there.
	nameFiles = []string{"hosts", "resolv.conf"}

	caches  = []string{"/var/cache/fontconfig"} // without it, every start looks at every font
	devices = []string{"null", "zero", "full", "random", "urandom"}
)

// stage is where the new root is put together, over a directory that every
// system has. Nobody outside the namespace sees it.
const stage = "/tmp"

// tree is a part of the host's files on its way into the room.
type tree struct {
	fd  int
	to  string
	dir bool
}

// furnish makes the room's root and enters it. It returns the directories of
// its configuration and of the launch's data.
func (o *order) furnish() (dirs []int, err error) {
	trees, err := o.collect() // before the stage hides what is in its place
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		o.makeRoot,
		o.makeFiles,
		o.makeDevices,
		o.makeConfig,
		func() error { return attach(trees) },
		o.makeProc,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	for _, path := range []string{"/etc", Data} {
		fd, err := unix.Open(stage+path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, &failure{PrivateFiles, fmt.Errorf("open %s: %w", path, err)}
		}
		dirs = append(dirs, fd)
	}
	return dirs, enter()
}

// collect takes hold of what the room will have of the host.
func (o *order) collect() (trees []tree, err error) {
	take := func(from, to string, attributes uint64, must bool) {
		if err != nil {
			return
		}
		t, failed := take(from, to, attributes)
		if failed == nil {
			trees = append(trees, t)
		} else if must || !errors.Is(failed, fs.ErrNotExist) {
			err = &failure{PrivateFiles, failed}
		}
	}
	attributes := uint64(unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NODEV)
	if !o.Helper {
		attributes |= unix.MOUNT_ATTR_NOSUID
	}
	for _, dir := range systemDirs {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() { // links are made again
			take(dir, dir, attributes, false)
		}
	}
	for _, name := range o.configFiles() {
		take("/etc/"+name, "/etc/"+name, attributes, false)
	}
	for _, dir := range caches {
		take(dir, dir, attributes, false)
	}
	for _, name := range devices {
		take("/dev/"+name, "/dev/"+name, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, true)
	}
	for _, bind := range o.Binds {
		if !slices.ContainsFunc(systemDirs, func(dir string) bool { return within(bind.To, dir) }) {
			take(bind.From, bind.To, attributes, true)
		}
	}
	if !o.PID {
		take("/proc", "/proc", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, true)
	}
	return trees, err
}

// configFiles are what the room has of the host's /etc.
func (o *order) configFiles() []string {
	if o.Network {
		return configFiles
	}
	return slices.Concat(configFiles, nameFiles)
}

// take copies a mount, with all that is mounted below, and narrows the copy.
func take(from, to string, attributes uint64) (tree, error) {
	info, err := os.Stat(from)
	if err != nil {
		return tree{}, err
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return tree{}, fmt.Errorf("copy the mount of %s: %w", from, err)
	}
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attributes})
	if err != nil {
		return tree{}, fmt.Errorf("protect %s: %w", from, err)
	}
	return tree{fd: fd, to: to, dir: info.IsDir()}, nil
}

// attach puts what was collected into the new root.
func attach(trees []tree) error {
	for _, t := range trees {
		err := mountPoint(stage+t.to, t.dir)
		if err == nil {
			err = unix.MoveMount(t.fd, "", unix.AT_FDCWD, stage+t.to, unix.MOVE_MOUNT_F_EMPTY_PATH)
		}
		_ = unix.Close(t.fd)
		if err != nil {
			return &failure{PrivateFiles, fmt.Errorf("mount %s: %w", t.to, err)}
		}
	}
	return nil
}

// mountPoint makes a directory or an empty file, with what leads to it.
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

func (o *order) makeProc() error {
	if !o.PID {
		return nil
	}
	if err := os.Mkdir(stage+"/proc", 0o755); err != nil {
		return &failure{PrivateFiles, err}
	}
	return mountProc(stage + "/proc")
}

// mountProc shows the processes of the namespace that we are in.
func mountProc(path string) error {
	if err := unix.Mount("proc", path, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return &failure{PIDNamespace, fmt.Errorf("/proc can't be mounted: %w", err)}
	}
	return nil
}

// enter makes the stage the root, and lets go of the host's.
func enter() error {
	if err := unix.Chdir(stage); err != nil {
		return &failure{PrivateFiles, err}
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return &failure{PrivateFiles, fmt.Errorf("pivot root: %w", err)}
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return &failure{PrivateFiles, fmt.Errorf("leave the host's root: %w", err)}
	}
	if err := unix.Chdir("/"); err != nil {
		return &failure{PrivateFiles, err}
	}
	return nil
}
