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
	"time"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/worker/internal/browser/display"
	"github.com/browser-svc/svc/worker/internal/data/files"
)

// dirs are the paths of one launch's files. The root belongs to the worker, its
// contents to the launch's user.
type dirs struct {
	root, home, tmp, data, xauth string
	extensions                   string // copies of extensions, unless they are in the sandbox
	shortTmp                     string // a link to tmp with a short path
	files                        string // downloads and uploads, on the disk; "" for none
	vncSocket, vncAuth           string // of the display: its VNC server's socket, its passwords
}

// shortParent contains links to temporary directories. Chromium and the VNC server
// create sockets there, and the path of a socket has at most 107 bytes.
const (
	shortParent = "/tmp"
	shortPrefix = "svc-tmp-"
)

func newDirs(parent, launchID string) dirs {
	root := filepath.Join(parent, launchID)
	d := dirs{
		root: root, home: filepath.Join(root, "home"), tmp: filepath.Join(root, "tmp"),
		data: filepath.Join(root, "data"), xauth: filepath.Join(root, "xauth"), extensions: filepath.Join(root, "extensions"),
		shortTmp: filepath.Join(shortParent, shortPrefix+strings.ToLower(rand.Text())[:12]),
	}
	d.vncSocket, d.vncAuth = filepath.Join(d.shortTmp, "vnc"), filepath.Join(root, "vncauth")
	return d
}

// paths are the locations of a launch's files as its processes see them.
type paths struct {
	root                            string // the marker of the launch; a path on the host
	home, tmp, runtime, data, xauth string
	files                           string // "" for none
	extensions                      string
	smallSharedMemory               bool // /dev/shm is too small for a browser
	ownTimezone                     bool // the browser has a private /etc/localtime
}

// hostPaths returns the paths of a process without a separate root.
func (d dirs) hostPaths() paths {
	return paths{
		root: d.root, home: d.home, tmp: d.shortTmp, runtime: d.tmp, data: d.data, xauth: d.xauth, files: d.files,
		extensions: d.extensions, smallSharedMemory: smallSharedMemory(),
	}
}

// writable are the directories that belong to the launch's user.
func (d dirs) writable() []string { return []string{d.home, d.tmp, d.data} }

// create creates the directories, the inner ones owned by uid unless that is
// negative. The launch's root must not exist. With private set, the files are in
// the sandbox and the inner directories are not created.
func (d dirs) create(uid int, private bool) error {
	if err := os.Mkdir(d.root, 0o711); err != nil {
		return fmt.Errorf("launch directory: %w", err)
	}
	if private {
		return nil
	}
	for _, dir := range d.writable() {
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
	if d.files == "" {
		return nil
	}
	// Chromium's own default for downloads, if a client has reset the worker's settings.
	if err := os.Symlink(filepath.Join(d.files, files.DownloadsBelow), filepath.Join(d.home, "Downloads")); err != nil {
		return fmt.Errorf("launch directory: %w", err)
	}
	return nil
}

// remove removes the launch's directory.
func (d dirs) remove() error {
	var errs []error
	if err := os.Remove(d.shortTmp); !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, os.RemoveAll(d.root))...)
}

// removeShortLinks removes the links to launch directories below parent whose
// launches have ended.
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

// record is what a sweep at start needs to know about a launch of an earlier
// worker.
type record struct {
	UID          int              `json:"uid"`                   // -1: the worker's own
	DisplaySince time.Time        `json:"displaySince,omitzero"` // before the display was started; zero: no display
	Display      int              `json:"display"`
	Socket       display.SocketID `json:"socket"` // zero: no display, or not known yet
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

// checkTraversable returns an error if other users cannot reach the contents of
// dir.
func checkTraversable(dir string) error {
	for d := dir; ; d = filepath.Dir(d) {
		info, err := os.Stat(d)
		if err != nil {
			return err
		}
		if info.Mode()&0o001 == 0 {
			return fmt.Errorf("%s is not accessible to other users (mode %04o), and browsers run as other users: add execute permission", d, info.Mode().Perm())
		}
		if d == filepath.Dir(d) {
			return nil
		}
	}
}

// enoughSharedMemory is the shared memory that a browser may need, in bytes.
const enoughSharedMemory = 512 << 20

// smallSharedMemory reports whether /dev/shm is too small for a browser, as
// in a container with default settings.
func smallSharedMemory() bool {
	var fs unix.Statfs_t
	if unix.Statfs("/dev/shm", &fs) != nil {
		return true
	}
	return fs.Blocks*uint64(fs.Bsize) < enoughSharedMemory
}
