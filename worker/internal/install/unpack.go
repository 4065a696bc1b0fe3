package install

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Limits limit the unpacked contents of an archive.
type Limits struct {
	Bytes   int64 // of all files together
	Entries int   // including directories without an entry
	Ratio   int64 // of the unpacked bytes to the size of the archive
}

// DefaultLimits are several times what a browser needs.
var DefaultLimits = Limits{Bytes: 4 << 30, Entries: 20_000, Ratio: 100}

// ErrUnsafe means that an archive is refused because of its contents.
var ErrUnsafe = errors.New("the archive is unsafe or invalid and was not installed")

var (
	executables = []string{"chrome", "chromium", "headless_shell", "chrome-headless-shell", "chromium-browser"}
	// helpers are programs that a browser starts. They are made executable, because
	// archives made on other systems lack the mode bits.
	helpers = []string{"chrome_crashpad_handler", "chrome-sandbox"}
)

// maxDepth is how many directories deep the browser's program may be.
const maxDepth = 2

// Limits of the path of an entry.
const (
	maxName    = 4096 // bytes
	maxNesting = 32   // directories
)

// unpack unpacks the directory of the browser's program into dir, which must not
// exist, and returns the program's path there.
func (i *Installer) unpack(ctx context.Context, file, dir string) (executable string, err error) {
	archive, err := zip.OpenReader(file)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnsafe, err)
	}
	defer func() { _ = archive.Close() }()
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	c, err := inspectEntries(archive.File, info.Size(), i.limits())
	if err != nil {
		return "", err
	}
	if err := i.checkDiskSpace(c.bytes); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if err := c.write(ctx, root); err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.FromSlash(c.executable)), nil
}

func (i *Installer) limits() Limits {
	l := i.Limits
	if l.Bytes == 0 {
		l.Bytes = DefaultLimits.Bytes
	}
	if l.Entries == 0 {
		l.Entries = DefaultLimits.Entries
	}
	if l.Ratio == 0 {
		l.Ratio = DefaultLimits.Ratio
	}
	return l
}

// contents are the entries of an archive, checked by their headers. Their data
// is checked again when it is written.
type contents struct {
	dirs, files, links []*zip.File
	root               string // the directory of the program in the archive, empty or with a trailing slash
	executable         string // below root
	bytes              int64
}

func unsafeError(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUnsafe, fmt.Errorf(format, args...))
}

func inspectEntries(entries []*zip.File, size int64, limits Limits) (*contents, error) {
	if len(entries) > limits.Entries {
		return nil, unsafeError("it has %d entries; the limit is %d", len(entries), limits.Entries)
	}
	c := &contents{}
	kinds := make(map[string]fs.FileMode, len(entries))
	for _, f := range entries {
		name := entryName(f)
		if _, twice := kinds[name]; twice {
			return nil, unsafeError("duplicate entry %q", f.Name)
		}
		kinds[name] = f.Mode().Type()
		if err := c.add(f, limits); err != nil {
			return nil, err
		}
	}
	if c.bytes/limits.Ratio > size {
		return nil, unsafeError("it would unpack from %d to %d bytes; the limit is a factor of %d", size, c.bytes, limits.Ratio)
	}
	if err := checkDirs(kinds, limits); err != nil {
		return nil, err
	}
	return c, c.findExecutable()
}

func entryName(f *zip.File) string { return strings.TrimSuffix(f.Name, "/") }

// add checks one entry.
func (c *contents) add(f *zip.File, limits Limits) error {
	name := entryName(f)
	if strings.ContainsAny(name, "\\\x00") || !filepath.IsLocal(name) || !fs.ValidPath(name) {
		return unsafeError("entry %q has a path outside the archive", f.Name)
	}
	if len(name) > maxName || strings.Count(name, "/") > maxNesting {
		return unsafeError("the path of entry %.100q... is too long", f.Name)
	}
	if isHardLink(f) {
		return unsafeError("entry %q is a hard link", f.Name)
	}
	switch f.Mode().Type() {
	case fs.ModeDir:
		c.dirs = append(c.dirs, f)
	case fs.ModeSymlink:
		c.links = append(c.links, f)
	case 0:
		c.files = append(c.files, f)
		if f.UncompressedSize64 > uint64(limits.Bytes) {
			return unsafeError("entry %q has %d bytes; the limit is %d", f.Name, f.UncompressedSize64, limits.Bytes)
		}
		if c.bytes += int64(f.UncompressedSize64); c.bytes > limits.Bytes {
			return unsafeError("it unpacks to more than %d bytes", limits.Bytes)
		}
	default:
		return unsafeError("entry %q is not a file, directory or link", f.Name)
	}
	return nil
}

// isHardLink reports whether an entry is a hard link: only the PKWARE Unix field can
// make it one, with data after its twelve fixed bytes.
func isHardLink(f *zip.File) bool {
	const pkwareUnix, fixed = 0x000d, 12
	for extra := f.Extra; len(extra) >= 4; {
		id, size := int(extra[0])|int(extra[1])<<8, int(extra[2])|int(extra[3])<<8
		if id == pkwareUnix && size > fixed {
			return true
		}
		extra = extra[min(4+size, len(extra)):]
	}
	return false
}

func (c *contents) findExecutable() error {
	var found []string
	for _, f := range c.files {
		if strings.Count(f.Name, "/") <= maxDepth && slices.Contains(executables, path.Base(f.Name)) {
			found = append(found, f.Name)
		}
	}
	switch len(found) {
	case 0:
		return unsafeError("it contains no browser: it must have one of the files %s, at most two directories deep", strings.Join(executables, ", "))
	case 1:
		c.root, c.executable = path.Split(found[0])
		return nil
	}
	return unsafeError("it contains more than one browser: %s", strings.Join(found, ", "))
}

// below returns the entry's name relative to the root; false if it is elsewhere.
func (c *contents) below(f *zip.File) (name string, ok bool) {
	name, ok = strings.CutPrefix(entryName(f), c.root)
	return name, ok && name != ""
}

// write writes the entries below the root. Links are written last, so that
// nothing is written through a link, and each must resolve to an existing entry.
func (c *contents) write(ctx context.Context, root *os.Root) error {
	for _, f := range c.dirs {
		if name, ok := c.below(f); ok {
			if err := makeDirs(ctx, root, name); err != nil {
				return err
			}
		}
	}
	for _, f := range c.files {
		name, ok := c.below(f)
		if !ok {
			continue
		}
		if err := c.writeFile(ctx, root, f, name); err != nil {
			return fmt.Errorf("unpack %q: %w", f.Name, err)
		}
	}
	for _, f := range c.links {
		if name, ok := c.below(f); ok {
			if err := writeLink(ctx, root, f, name); err != nil {
				return err
			}
		}
	}
	for _, f := range c.links {
		if name, ok := c.below(f); ok {
			if _, err := root.Stat(name); err != nil {
				return unsafeError("link %q does not resolve inside the browser's directory", f.Name)
			}
		}
	}
	return nil
}

func (c *contents) writeFile(ctx context.Context, root *os.Root, f *zip.File, name string) error {
	if err := makeDirs(ctx, root, path.Dir(name)); err != nil {
		return err
	}
	content, err := f.Open()
	if err != nil {
		return unsafeError("%w", err)
	}
	defer content.Close()
	mode := fs.FileMode(0o644)
	if f.Mode()&0o111 != 0 || name == c.executable || slices.Contains(helpers, name) {
		mode = 0o755
	}
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	// Reading one byte more than announced detects a wrong size.
	written, err := io.Copy(file, &contextReader{ctx, io.LimitReader(content, int64(f.UncompressedSize64)+1)})
	err = errors.Join(err, file.Chmod(mode), file.Close())
	if errors.Is(err, zip.ErrFormat) || errors.Is(err, zip.ErrChecksum) || uint64(written) > f.UncompressedSize64 {
		return unsafeError("its content does not match the archive's headers")
	}
	return err
}

// contextReader reads until its context ends.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (b *contextReader) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.Reader.Read(p)
}
