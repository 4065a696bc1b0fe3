package embedded

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	socketName    = ".s.PGSQL.65535"
	maxSocketPath = 107      // bytes, of sockaddr_un.sun_path without its zero
	maxLog        = 10 << 20 // size at which server.log is rotated, in bytes
)

// ErrInUse means that another process uses the data directory.
var ErrInUse = errors.New("the data directory is in use")

// dataDir is the data directory:
//
//	lock       locked with flock by the owner; contains its process ID
//	password   of the roles svc and postgres, 0600
//	name       random; part of the tag
//	cluster/   PostgreSQL's data
//	run/       the socket
//	socketdir  the directory of the socket if the path of run/ is too long
//	server.log
//
// The owner is the user that starts the server; only cluster and the socket's
// directory belong to the server's account. So a server under another user cannot
// create links that root would follow.
type dataDir struct {
	dir      string
	account  account
	lock     *os.File
	password string
	sockets  string // directory of the socket

	// tag marks the command line of the postmaster and, through cluster_name, of its
	// child processes. A copy of the directory gets another tag, so that it does not
	// stop the server of the original.
	tag string
}

// openDataDir creates the data directory if needed, takes its lock, and prepares
// everything except the cluster.
func openDataDir(dir string) (*dataDir, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	h := &dataDir{dir: dir}
	if h.account, err = chooseAccount(h.cluster()); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the data directory: %w", err)
	}
	mode := fs.FileMode(0o700)
	if h.account.foreign {
		mode = 0o711
		if err := os.Chown(dir, 0, 0); err != nil {
			return nil, fmt.Errorf("change the owner of the data directory: %w", err)
		}
	}
	if err := os.Chmod(dir, mode); err != nil {
		return nil, fmt.Errorf("set the permissions of the data directory: %w", err)
	}
	if err := h.account.canReach(dir); err != nil {
		return nil, err
	}
	if err := h.takeLock(); err != nil {
		return nil, err
	}
	if h.tag, err = h.makeTag(); err == nil {
		h.password, err = h.secret("password")
	}
	if err != nil {
		h.lock.Close()
		return nil, err
	}
	return h, nil
}

func (h *dataDir) path(name string) string { return filepath.Join(h.dir, name) }
func (h *dataDir) cluster() string         { return h.path("cluster") }

// exists reports whether the cluster exists.
func (h *dataDir) exists() bool {
	_, err := os.Stat(filepath.Join(h.cluster(), "PG_VERSION"))
	return err == nil
}

func (h *dataDir) takeLock() error {
	file, err := os.OpenFile(h.path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the lock: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		owner, _ := io.ReadAll(io.LimitReader(file, 20)) // only for the error message
		file.Close()
		return fmt.Errorf("%w: %s is used by process %s", ErrInUse, h.dir, strings.TrimSpace(string(owner)))
	}
	if err == nil {
		err = file.Truncate(0)
	}
	if err == nil {
		_, err = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		file.Close()
		return fmt.Errorf("take the lock: %w", err)
	}
	h.lock = file
	return nil
}

func (h *dataDir) makeTag() (string, error) {
	name, err := h.secret("name")
	if err != nil {
		return "", err
	}
	var stat syscall.Stat_t
	if err := syscall.Stat(h.dir, &stat); err != nil {
		return "", fmt.Errorf("stat the data directory: %w", err)
	}
	return fmt.Sprintf("svc-%s-%x-%x", name, stat.Dev, stat.Ino), nil
}

// secret returns the random text in the file, which it creates once. If the cluster
// exists but its password is missing, it returns an error, because the cluster can no
// longer be opened.
func (h *dataDir) secret(name string) (string, error) {
	text, err := os.ReadFile(h.path(name))
	if err == nil && len(text) > 0 {
		return strings.TrimSpace(string(text)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if name == "password" && h.exists() {
		return "", fmt.Errorf("%s is missing: the cluster is not accessible without it", h.path(name))
	}
	value := strings.ToLower(rand.Text())
	if err := writeSynced(h.path(name), value+"\n"); err != nil {
		return "", fmt.Errorf("write the %s file: %w", name, err)
	}
	return value, nil
}

// writeSynced creates a private file atomically, with its content on disk.
func writeSynced(path, text string) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}

// makeSocketDir creates a private, empty directory for the socket: run/, or a temporary
// directory if that path is too long.
func (h *dataDir) makeSocketDir() error {
	h.removeSocketDir()
	dir := h.path("run")
	if len(filepath.Join(dir, socketName)) <= maxSocketPath {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		h.sockets = dir
		return h.account.chown(dir)
	}
	for _, parent := range []string{os.TempDir(), "/tmp"} {
		dir, err := os.MkdirTemp(parent, "svc-pg-")
		if err != nil {
			continue
		}
		if len(filepath.Join(dir, socketName)) > maxSocketPath || h.account.canReach(parent) != nil {
			os.Remove(dir)
			continue
		}
		h.sockets = dir
		return errors.Join(writeSynced(h.path("socketdir"), dir+"\n"), h.account.chown(dir))
	}
	return fmt.Errorf("no directory with a path short enough for a socket: %s is too long, and so are the temporary ones", dir)
}

// clearSocketDir removes the socket of an exited postmaster and its lock, which names a
// process ID that another program can have by now.
func (h *dataDir) clearSocketDir() error {
	files, err := filepath.Glob(filepath.Join(h.sockets, ".s.PGSQL.*"))
	for _, file := range files {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// removeSocketDir removes the socket directory of an earlier start.
func (h *dataDir) removeSocketDir() {
	os.RemoveAll(h.path("run"))
	text, err := os.ReadFile(h.path("socketdir"))
	if err != nil {
		return
	}
	dir := strings.TrimSpace(string(text))
	if strings.HasPrefix(filepath.Base(dir), "svc-pg-") {
		os.RemoveAll(dir) //nolint:gosec // the file is ours, and only our own kind of directory goes
	}
	os.Remove(h.path("socketdir"))
}

func (h *dataDir) openLog() (*os.File, error) {
	path := h.path("server.log")
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// logTail returns the end of the server's log, for an error message.
func (h *dataDir) logTail() string {
	const lines, bytes = 15, 4096
	file, err := os.Open(h.path("server.log"))
	if err != nil {
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > bytes {
		_, _ = file.Seek(-bytes, io.SeekEnd)
	}
	text, _ := io.ReadAll(io.LimitReader(file, bytes))
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func (h *dataDir) close() {
	h.removeSocketDir()
	h.lock.Close()
}
