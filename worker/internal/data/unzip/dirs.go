package unzip

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
)

// checkDirs checks the parent directories of entries, including those without an
// entry.
func checkDirs(kinds map[string]fs.FileMode, limits Limits) error {
	implicit := map[string]bool{}
	for name := range kinds {
		for dir := path.Dir(name); dir != "." && !implicit[dir]; dir = path.Dir(dir) {
			kind, ok := kinds[dir]
			if ok && kind != fs.ModeDir {
				return Unsafe("entry %q is below %q, which is not a directory", name, dir)
			}
			if ok {
				break
			}
			implicit[dir] = true
		}
		if len(kinds)+len(implicit) > limits.Entries {
			return Unsafe("it has more than %d entries, including directories without an entry", limits.Entries)
		}
	}
	return nil
}

// MakeDirs creates a directory and its parents, accessible to all users
// regardless of the umask.
func MakeDirs(ctx context.Context, root *os.Root, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if name == "." {
		return root.Chmod(".", 0o755)
	}
	if err := MakeDirs(ctx, root, path.Dir(name)); err != nil {
		return err
	}
	if err := root.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return root.Chmod(name, 0o755)
}
