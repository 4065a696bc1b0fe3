package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the user that the server runs as. PostgreSQL refuses to run as root.
type account struct {
	name     string
	uid, gid int
	foreign  bool // not the user of this process
}

// chooseAccount returns this process's user or, for root, the owner of the existing
// cluster, else the user postgres, else nobody.
func chooseAccount(cluster string) (account, error) {
	if uid := os.Geteuid(); uid != 0 {
		return account{name: "uid " + strconv.Itoa(uid), uid: uid, gid: os.Getegid()}, nil
	}
	if info, err := os.Stat(cluster); err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 {
			name := "uid " + strconv.Itoa(int(stat.Uid))
			return account{name: name, uid: int(stat.Uid), gid: int(stat.Gid), foreign: true}, nil
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(u.Uid)
		if err != nil {
			return account{}, fmt.Errorf("user %s: %w", name, err)
		}
		gid, err := strconv.Atoi(u.Gid)
		if err != nil {
			return account{}, fmt.Errorf("user %s: %w", name, err)
		}
		return account{name: name, uid: uid, gid: gid, foreign: true}, nil
	}
	return account{}, errors.New("PostgreSQL refuses to run as root, and the users postgres and nobody do not exist")
}

// credential returns the credential to run a process as the account; nil for the user
// of this process.
func (a account) credential() *syscall.Credential {
	if !a.foreign {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
}

// chown changes the owner of one path to the account.
func (a account) chown(path string) error {
	if !a.foreign {
		return nil
	}
	return os.Lchown(path, a.uid, a.gid)
}

// chownTree changes the owner of a directory and everything below it, unless the
// account already owns the directory.
func (a account) chownTree(dir string) error {
	if !a.foreign {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) == a.uid {
		return nil
	}
	// The directory itself is changed last, so that an interrupted walk is repeated.
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		return a.chown(path)
	})
	if err != nil {
		return err
	}
	return a.chown(dir)
}

// canReach returns an error that names the first parent of dir that the account cannot
// traverse.
func (a account) canReach(dir string) error {
	if !a.foreign {
		return nil
	}
	var blocked string
	for current := filepath.Clean(dir); ; current = filepath.Dir(current) {
		info, err := os.Stat(current)
		if err != nil {
			return err
		}
		if !a.canTraverse(info) {
			blocked = current
		}
		if current == filepath.Dir(current) {
			break
		}
	}
	if blocked == "" {
		return nil
	}
	return fmt.Errorf("PostgreSQL runs as the user %s, which cannot access the directory %s in the path %s: run chmod o+x %s, or use another data directory",
		a.name, blocked, dir, blocked)
}

func (a account) canTraverse(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	mode := info.Mode().Perm()
	switch {
	case int(stat.Uid) == a.uid:
		return mode&0o100 != 0
	case int(stat.Gid) == a.gid:
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}
