package browser

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// dirs is where one launch keeps its files. The root belongs to the worker,
// what is in it to the launch's user.
type dirs struct {
	root, home, tmp, data, xauth string
	short                        string // a link to tmp with a short path
	vncSocket, vncAuth           string // of the display: its VNC server's socket, its passwords
	kept                         bool   // data is the caller's and stays
}

// shortParent holds the links to temporary directories. Chromium and the VNC
// server make sockets there, and the path of a socket has 107 bytes at most.
const (
	shortParent = "/tmp"
	shortPrefix = "svc-tmp-"
)

func newDirs(parent, launchID, userDataDir string) dirs {
	root := filepath.Join(parent, launchID)
	d := dirs{
		root: root, home: filepath.Join(root, "home"), tmp: filepath.Join(root, "tmp"),
		data: filepath.Join(root, "data"), xauth: filepath.Join(root, "xauth"),
		short: filepath.Join(shortParent, shortPrefix+strings.ToLower(rand.Text())[:12]),
	}
	d.vncSocket, d.vncAuth = filepath.Join(d.short, "vnc"), filepath.Join(root, "vncauth")
	if userDataDir != "" {
		d.data, d.kept = userDataDir, true
	}
	return d
}

// create makes the directories, the inner ones for uid unless that is
// negative. The launch's own must not exist yet.
func (d dirs) create(uid int) error {
	if err := os.Mkdir(d.root, 0o711); err != nil {
		return fmt.Errorf("launch directory: %w", err)
	}
	for _, dir := range []string{d.home, d.tmp, d.data} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("launch directory: %w", err)
		}
		if uid < 0 {
			continue
		}
		if err := os.Chown(dir, uid, uid); err != nil {
			return fmt.Errorf("launch directory: %w", err)
		}
	}
	if err := os.Symlink(d.tmp, d.short); err != nil {
		return fmt.Errorf("launch directory: %w", err)
	}
	if !d.kept {
		return nil
	}
	return d.adopt(uid)
}

// adopt readies a kept data directory: what an earlier run left there as its
// lock goes, and the files change to the user of this launch.
func (d dirs) adopt(uid int) error {
	for _, name := range []string{"SingletonLock", "SingletonSocket", "SingletonCookie", "DevToolsActivePort"} {
		if err := os.Remove(filepath.Join(d.data, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("kept data directory: %w", err)
		}
	}
	if uid < 0 {
		return nil
	}
	if err := checkTraversable(filepath.Dir(d.data)); err != nil {
		return fmt.Errorf("kept data directory: %w", err)
	}
	inside, err := os.OpenRoot(d.data)
	if err != nil {
		return fmt.Errorf("kept data directory: %w", err)
	}
	defer inside.Close()
	err = fs.WalkDir(inside.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return inside.Lchown(path, uid, uid)
	})
	if err != nil {
		return fmt.Errorf("kept data directory: %w", err)
	}
	return nil
}

// remove takes the launch's directory away and closes a kept one to every
// user but the worker's.
func (d dirs) remove() error {
	var errs []error
	if d.kept && os.Geteuid() == 0 {
		errs = append(errs, os.Chown(d.data, 0, 0))
	}
	if err := os.Remove(d.short); !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, os.RemoveAll(d.root))...)
}

// removeShortsInto removes the links into launch directories below parent that
// nobody holds any more.
func removeShortsInto(parent string, isLive func(launchID string) bool) {
	links, _ := filepath.Glob(filepath.Join(shortParent, shortPrefix+"*"))
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil {
			continue
		}
		root := filepath.Dir(target)
		if filepath.Dir(root) == parent && !isLive(filepath.Base(root)) {
			_ = os.Remove(link)
		}
	}
}

// record is what a boot sweep must know of a launch that nobody ended.
type record struct {
	UID     int      `json:"uid"` // -1: the worker's own
	Display int      `json:"display"`
	Socket  socketID `json:"socket"` // zero: no display
}

const recordName = "launch.json"

func (d dirs) writeRecord(r record) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(d.root, recordName), raw, 0o600)
}

func readRecord(root string) (record, error) {
	var r record
	raw, err := os.ReadFile(filepath.Join(root, recordName))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(raw, &r)
}

// readSmall reads a file that an untrusted process wrote: no link is followed
// and no more than a page is read.
func readSmall(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 4096))
}

// checkTraversable makes sure that another user can reach what lies in dir.
func checkTraversable(dir string) error {
	for d := dir; ; d = filepath.Dir(d) {
		info, err := os.Stat(d)
		if err != nil {
			return err
		}
		if info.Mode()&0o001 == 0 {
			return fmt.Errorf("%s is closed to other users (mode %04o), which browsers run as", d, info.Mode().Perm())
		}
		if d == filepath.Dir(d) {
			return nil
		}
	}
}
