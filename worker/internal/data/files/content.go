package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// partialSuffix is what Chromium appends to the name of an unfinished download.
const partialSuffix = ".crdownload"

// stored is the opened content of a file.
type stored struct {
	*os.File
	size int64
}

// open opens the content of a file. The caller holds the lock. Error: ErrNoContent.
func (l *Launch) open(f *File) (stored, error) {
	shared, err := os.OpenRoot(l.Shared())
	if err != nil {
		return stored{}, fmt.Errorf("%w: %w", ErrNoContent, err)
	}
	defer shared.Close()
	if f.Source == Upload {
		return l.openRegular(shared, filepath.Join(uploadsDir, f.ID, f.Stored), os.Geteuid())
	}
	owner := l.uid
	if owner < 0 {
		owner = os.Geteuid()
	}
	path := filepath.Join(downloadsDir, f.Stored)
	if f.State == InProgress {
		if opened, err := l.openRegular(shared, path+partialSuffix, owner); err == nil {
			return opened, nil
		}
	}
	return l.openRegular(shared, path, owner)
}

// openRegular opens a regular file of a user that has no other name. The browser may
// replace the file at any time, by a link, a pipe or a link to another file.
func (l *Launch) openRegular(shared *os.Root, path string, owner int) (stored, error) {
	f, err := shared.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return stored{}, fmt.Errorf("%w: %w", ErrNoContent, err)
	}
	info, err := f.Stat()
	if err == nil {
		var named os.FileInfo
		if named, err = shared.Lstat(path); err == nil && !os.SameFile(named, info) {
			err = errors.New("it is a link or was replaced")
		}
	}
	if err == nil {
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || !info.Mode().IsRegular() || stat.Nlink != 1 || int(stat.Uid) != owner {
			err = fmt.Errorf("it is not a regular file of the browser: %s", info.Mode())
		}
	}
	if err != nil {
		_ = f.Close()
		return stored{}, fmt.Errorf("%w: %w", ErrNoContent, err)
	}
	return stored{f, info.Size()}, nil
}

// Open opens a complete file. Errors: ErrNotFound, ErrNoContent.
func (l *Launch) Open(id string) (*os.File, File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[id]
	if f == nil {
		return nil, File{}, ErrNotFound
	}
	if f.State != Complete {
		return nil, *f, ErrNoContent
	}
	opened, err := l.open(f)
	return opened.File, *f, err
}

// Follow copies a file to w, and continues while the browser downloads it. It returns
// nil after the end of a complete file only. Errors: ErrNotFound, ErrNoContent if the
// download ends without success, those of w and ctx.
func (l *Launch) Follow(ctx context.Context, id string, w io.Writer) error {
	var content *os.File // nil until there is one
	defer func() { _ = content.Close() }()
	for offset := int64(0); ; {
		f, changed, opened, err := l.observe(id, content == nil)
		if err != nil {
			return err
		}
		if opened != nil {
			_ = content.Close()
			content = opened
			if _, err := content.Seek(offset, io.SeekStart); err != nil {
				return err
			}
		}
		if content != nil {
			n, err := io.Copy(w, content)
			offset += n
			if err != nil {
				return err
			}
		}
		switch {
		case f.State == Complete && offset == f.Size:
			return nil
		case f.State != InProgress:
			return fmt.Errorf("%w: it is %s after %d of %d bytes", ErrNoContent, f.State, offset, f.Size)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// observe returns a file, a channel that is closed at the next change and, if
// withContent is set or the file is complete, its content, if there is any: Chromium may have
// stored the complete file again.
func (l *Launch) observe(id string, withContent bool) (File, <-chan struct{}, *os.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[id]
	if f == nil {
		return File{}, nil, nil, ErrNotFound
	}
	if !withContent && f.State != Complete {
		return *f, l.changed, nil, nil
	}
	opened, err := l.open(f)
	if err != nil && f.State == Complete {
		return File{}, nil, nil, err
	}
	return *f, l.changed, opened.File, nil
}

// removeContent removes what is stored of a file. The caller holds the lock.
func (l *Launch) removeContent(f *File) {
	shared, err := os.OpenRoot(l.Shared())
	if err != nil {
		return
	}
	defer shared.Close()
	paths := []string{filepath.Join(downloadsDir, f.Stored), filepath.Join(downloadsDir, f.Stored+partialSuffix)}
	if f.Source == Upload {
		paths = []string{filepath.Join(uploadsDir, f.ID)}
	}
	for _, path := range paths {
		if err := shared.RemoveAll(path); err != nil {
			l.store.Log.Error("failed to remove a file", "launchId", l.ID, "file", f.ID, "error", err)
		}
	}
}
