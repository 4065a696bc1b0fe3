package browser

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// dirs is where one launch keeps its files. The root belongs to the worker,
// what is in it to the launch's user.
type dirs struct {
	root, home, tmp, data, xauth string
	shortTmp                     string // a link to tmp with a short path
	vncSocket, vncAuth           string // stamp the display: its VNC server's socket, its passwords
}

// shortParent holds the links to temporary directories. Chromium and the VNC
// server make sockets there, and the path of a socket has 107 bytes at most.
const (
	shortParent = "/tmp"
	shortPrefix = "svc-tmp-"
)

func newDirs(parent, launchID string) dirs {
	root := filepath.Join(parent, launchID)
	d := dirs{
		root: root, home: filepath.Join(root, "home"), tmp: filepath.Join(root, "tmp"),
		data: filepath.Join(root, "data"), xauth: filepath.Join(root, "xauth"),
		shortTmp: filepath.Join(shortParent, shortPrefix+strings.ToLower(rand.Text())[:12]),
	}
	d.vncSocket, d.vncAuth = filepath.Join(d.shortTmp, "vnc"), filepath.Join(root, "vncauth")
	return d
}

// paths is where a process finds what is its own: the paths are those that it
// sees.
type paths struct {
	root                            string // the mark of the launch; outside
	home, tmp, runtime, data, xauth string
	smallSharedMemory               bool // what it shares with others does not fit into /dev/shm
	ownTimezone                     bool // /etc/localtime is its own
}

// hostPaths is the place of a process that sees the worker's files.
func (d dirs) hostPaths() paths {
	return paths{
		root: d.root, home: d.home, tmp: d.shortTmp, runtime: d.tmp, data: d.data, xauth: d.xauth, smallSharedMemory: smallSharedMemory(),
	}
}

// create makes the directories, the inner ones for uid unless that is
// negative. The launch's own must not exist yet. A launch whose files are
// elsewhere has no inner ones.
func (d dirs) create(uid int, elsewhere bool) error {
	if err := os.Mkdir(d.root, 0o711); err != nil {
		return fmt.Errorf("launch directory: %w", err)
	}
	if elsewhere {
		return nil
	}
	for _, dir := range []string{d.home, d.tmp, d.data} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("launch directory: %w", err)
		}
		if uid < 0 {
			continue
		}
		if err := os.Chown(dir, uid, uid); err != nil {
			return fmt.Errorf("launch directory: %w", err)
		}
	}
	if err := os.Symlink(d.tmp, d.shortTmp); err != nil {
		return fmt.Errorf("launch directory: %w", err)
	}
	return nil
}

// remove takes the launch's directory away.
func (d dirs) remove() error {
	var errs []error
	if err := os.Remove(d.shortTmp); !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, os.RemoveAll(d.root))...)
}

// removeShortLinks removes the links into launch directories below parent that
// nobody holds any more.
func removeShortLinks(parent string, isLive func(launchID string) bool) {
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
