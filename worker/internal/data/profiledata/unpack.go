package profiledata

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// maxDepth is the maximum directory depth of an entry.
const maxDepth = 64

// unpacker writes the entries of a snapshot into an empty root.
type unpacker struct {
	ctx    context.Context
	source io.Reader
	want   counts
	into   *os.Root

	kinds   map[string]byte // of the written entries, by name
	dirs    []*tar.Header   // modes and times are set last, because they would be changed or prevent writing
	links   []*tar.Header   // created last, so that no file is written through a link
	buffer  []byte
	content int64
	entries int64
	skipped skippedEntries
}

// writeError is an error of writing the output.
type writeError struct{ error }

// Unwrap returns the error itself.
func (e writeError) Unwrap() error { return e.error }

// counts are what a version states about its tar.
type counts struct{ content, entries int64 }

// unpackTar writes the entries of a tar into an empty directory. errDamaged means that the
// version is unusable; other errors do not imply that. After an error the written entries
// are removed.
func unpackTar(ctx context.Context, source io.Reader, want counts, into *os.Root) (skippedEntries, error) {
	u := &unpacker{ctx: ctx, source: source, want: want, into: into, kinds: map[string]byte{}, buffer: make([]byte, bufferSize)}
	err := u.run()
	if err == nil { // the rest of the tar
		_, err = io.Copy(io.Discard, source)
	}
	if err == nil && (u.content != want.content || u.entries != want.entries) {
		err = damaged("its entries do not match the stated counts")
	}
	if err != nil {
		return nil, errors.Join(err, u.removeUnpacked())
	}
	return u.skipped, nil
}

func (u *unpacker) run() error {
	entries := tar.NewReader(u.source)
	for {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return u.classifyError(err)
		}
		if err := u.ctx.Err(); err != nil {
			return err
		}
		if u.entries++; u.entries > u.want.entries {
			return damaged("it has more entries than stated")
		}
		if u.content += h.Size; h.Size < 0 || u.content > u.want.content {
			return damaged("it has more content than stated")
		}
		if err := u.entry(h, entries); err != nil {
			return u.classifyError(err)
		}
	}
	return u.finish()
}

// classifyError marks an error as errDamaged, unless it is a write or context error.
func (u *unpacker) classifyError(err error) error {
	var write writeError
	if errors.As(err, &write) || errors.Is(err, errDamaged) || errors.Is(err, errStore) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return damaged("%w", err)
}

// entry writes a directory or a file, and defers links.
func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	name := h.Name
	if h.Typeflag == tar.TypeDir {
		name = strings.TrimSuffix(name, "/")
	}
	h.Name = name
	if problem := u.validate(h); problem != "" {
		u.skipped.add(name, problem)
		return nil
	}
	u.kinds[name] = h.Typeflag
	switch h.Typeflag {
	case tar.TypeDir:
		u.dirs = append(u.dirs, h)
		return asWriteError(u.into.Mkdir(name, 0o700))
	case tar.TypeSymlink:
		u.links = append(u.links, h)
		return nil
	default:
		return u.file(h, content)
	}
}

// validate returns what is wrong with an entry. Snapshots of this package have no
// such entries.
func (u *unpacker) validate(h *tar.Header) string {
	switch {
	case strings.Contains(h.Name, "\x00") || !filepath.IsLocal(h.Name) || path.Clean(h.Name) != h.Name || h.Name == ".":
		return "name leaves the directory"
	case strings.Count(h.Name, "/") > maxDepth:
		return "too many levels"
	case u.kinds[h.Name] != 0:
		return "duplicate entry"
	case path.Dir(h.Name) != "." && u.kinds[path.Dir(h.Name)] != tar.TypeDir:
		return "parent directory is missing"
	case h.Typeflag == tar.TypeSymlink && !staysInside(h.Name, h.Linkname):
		return "link leaves the directory"
	case h.Typeflag != tar.TypeDir && h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeSymlink:
		return "not a file, directory or link"
	}
	return ""
}

func (u *unpacker) file(h *tar.Header, content io.Reader) (err error) {
	file, err := u.into.OpenFile(h.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return asWriteError(err)
	}
	defer func() { err = errors.Join(err, asWriteError(file.Close())) }()
	if err := copyExactly(writeErrorFile{file}, content, h.Size, u.buffer); err != nil {
		return err
	}
	if err := file.Chmod(fs.FileMode(h.Mode) & permissions); err != nil {
		return asWriteError(err)
	}
	return asWriteError(u.into.Chtimes(h.Name, h.ModTime, h.ModTime))
}

// finish creates the links and then sets modes and times of the directories,
// innermost first.
func (u *unpacker) finish() error {
	for _, h := range u.links {
		if err := u.into.Symlink(h.Linkname, h.Name); err != nil {
			return asWriteError(err)
		}
	}
	for i := len(u.dirs) - 1; i >= 0; i-- {
		h := u.dirs[i]
		err := errors.Join(u.into.Chtimes(h.Name, h.ModTime, h.ModTime), u.into.Chmod(h.Name, fs.FileMode(h.Mode)&permissions))
		if err != nil {
			return asWriteError(err)
		}
	}
	return nil
}

// removeUnpacked removes the written entries.
func (u *unpacker) removeUnpacked() error {
	var errs []error
	for name := range u.kinds {
		if !strings.Contains(name, "/") {
			errs = append(errs, u.into.RemoveAll(name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove unpacked entries: %w", err)
	}
	return nil
}

func asWriteError(err error) error {
	if err == nil {
		return nil
	}
	return writeError{err}
}

// writeErrorFile is a file whose errors are marked as write errors.
type writeErrorFile struct{ file *os.File }

// Write implements io.Writer.
func (w writeErrorFile) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	return n, asWriteError(err)
}

// skippedEntries lists omitted entries and the reasons.
type skippedEntries []string

// maxNamed is how many skipped entries are listed by name.
const maxNamed = 10

func (s *skippedEntries) add(name, why string) {
	switch {
	case len(*s) < maxNamed:
		*s = append(*s, fmt.Sprintf("%.200q: %s", name, why))
	case len(*s) == maxNamed:
		*s = append(*s, "and more")
	}
}

func (s skippedEntries) log(logger *slog.Logger, message string) {
	if len(s) > 0 {
		logger.Warn(message, "entries", []string(s))
	}
}
