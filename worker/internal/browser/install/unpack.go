package install

import (
	"archive/zip"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/browser-svc/svc/worker/internal/data/unzip"
)

// Limits limit the unpacked contents of an archive.
type Limits = unzip.Limits

// DefaultLimits are several times what a browser needs.
var DefaultLimits = Limits{Bytes: 4 << 30, Entries: 20_000, Ratio: 100}

// ErrUnsafe means that an archive is refused because of its contents.
var ErrUnsafe = unzip.ErrUnsafe

var (
	executables = []string{"chrome", "chromium", "headless_shell", "chrome-headless-shell", "chromium-browser"}
	// helpers are programs that a browser starts. They are made executable, because
	// archives from other systems have no mode bits.
	helpers = []string{"chrome_crashpad_handler", "chrome-sandbox"}
)

// maxDepth is how many directories deep the browser's program may be.
const maxDepth = 2

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
	if err := i.checkDiskSpace(c.Bytes); err != nil {
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

// contents are the entries of an archive.
type contents struct {
	*unzip.Contents
	root       string // the directory of the program in the archive, empty or with a trailing slash
	executable string // below root
}

func inspectEntries(entries []*zip.File, size int64, limits Limits) (*contents, error) {
	checked, err := unzip.Inspect(entries, size, limits)
	if err != nil {
		return nil, err
	}
	c := &contents{Contents: checked}
	return c, c.findExecutable()
}

func (c *contents) findExecutable() error {
	var found []string
	for _, f := range c.Files {
		if strings.Count(f.Name, "/") <= maxDepth && slices.Contains(executables, path.Base(f.Name)) {
			found = append(found, f.Name)
		}
	}
	switch len(found) {
	case 0:
		return unzip.Unsafe("it contains no browser: it must have one of the files %s, at most two directories deep", strings.Join(executables, ", "))
	case 1:
		c.root, c.executable = path.Split(found[0])
		return nil
	}
	return unzip.Unsafe("it contains more than one browser: %s", strings.Join(found, ", "))
}

// below returns the entry's name relative to the root; false if it is elsewhere.
func (c *contents) below(f *zip.File) (name string, ok bool) {
	name, ok = strings.CutPrefix(unzip.Name(f), c.root)
	return name, ok && name != ""
}

// write writes the entries below the root. Links are written last, so that
// nothing is written through a link, and each must resolve to an existing entry.
func (c *contents) write(ctx context.Context, root *os.Root) error {
	for _, f := range c.Dirs {
		if name, ok := c.below(f); ok {
			if err := unzip.MakeDirs(ctx, root, name); err != nil {
				return err
			}
		}
	}
	for _, f := range c.Files {
		name, ok := c.below(f)
		if !ok {
			continue
		}
		if err := c.writeFile(ctx, root, f, name); err != nil {
			return fmt.Errorf("unpack %q: %w", f.Name, err)
		}
	}
	for _, f := range c.Links {
		if name, ok := c.below(f); ok {
			if err := writeLink(ctx, root, f, name); err != nil {
				return err
			}
		}
	}
	for _, f := range c.Links {
		if name, ok := c.below(f); ok {
			if _, err := root.Stat(name); err != nil {
				return unzip.Unsafe("link %q does not resolve inside the browser's directory", f.Name)
			}
		}
	}
	return nil
}

func (c *contents) writeFile(ctx context.Context, root *os.Root, f *zip.File, name string) error {
	mode := fs.FileMode(0o644)
	if f.Mode()&0o111 != 0 || name == c.executable || slices.Contains(helpers, name) {
		mode = 0o755
	}
	return unzip.WriteFile(ctx, root, f, name, mode)
}
