// Package unzip checks and unpacks zip archives of others: it limits their size and
// refuses paths outside the archive, hard links, devices and duplicate names. The caller
// decides which entries it writes, and whether it accepts symbolic links.
package unzip

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
	"strings"
)

// Limits limit the unpacked contents of an archive.
type Limits struct {
	Bytes   int64 // of all files together
	Entries int   // including directories without an entry
	Ratio   int64 // of the unpacked bytes to the size of the archive
}

// ErrUnsafe means that an archive is refused because of its contents.
var ErrUnsafe = errors.New("the archive is unsafe or invalid")

// Unsafe returns an ErrUnsafe with a reason.
func Unsafe(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUnsafe, fmt.Errorf(format, args...))
}

// Limits of the path of an entry.
const (
	maxName    = 4096 // bytes
	maxNesting = 32   // directories
)

// Contents are the entries of an archive, checked by their headers. WriteFile checks
// their data.
type Contents struct {
	Dirs, Files, Links []*zip.File
	Bytes              int64 // of all files
}

// Inspect checks the entries of an archive of this size. Errors: ErrUnsafe.
func Inspect(entries []*zip.File, size int64, limits Limits) (*Contents, error) {
	if len(entries) > limits.Entries {
		return nil, Unsafe("it has %d entries; the limit is %d", len(entries), limits.Entries)
	}
	c := &Contents{}
	kinds := make(map[string]fs.FileMode, len(entries))
	for _, f := range entries {
		name := Name(f)
		if _, twice := kinds[name]; twice {
			return nil, Unsafe("duplicate entry %q", f.Name)
		}
		kinds[name] = f.Mode().Type()
		if err := c.add(f, limits); err != nil {
			return nil, err
		}
	}
	if c.Bytes/limits.Ratio > size {
		return nil, Unsafe("it would unpack from %d to %d bytes; the limit is a factor of %d", size, c.Bytes, limits.Ratio)
	}
	return c, checkDirs(kinds, limits)
}

// Name returns the path of an entry, without the slash of a directory.
func Name(f *zip.File) string { return strings.TrimSuffix(f.Name, "/") }

// add checks one entry.
func (c *Contents) add(f *zip.File, limits Limits) error {
	name := Name(f)
	if strings.ContainsAny(name, "\\\x00") || !filepath.IsLocal(name) || !fs.ValidPath(name) {
		return Unsafe("entry %q has a path outside the archive", f.Name)
	}
	if len(name) > maxName || strings.Count(name, "/") > maxNesting {
		return Unsafe("the path of entry %.100q... is too long", f.Name)
	}
	if isHardLink(f) {
		return Unsafe("entry %q is a hard link", f.Name)
	}
	switch f.Mode().Type() {
	case fs.ModeDir:
		c.Dirs = append(c.Dirs, f)
	case fs.ModeSymlink:
		c.Links = append(c.Links, f)
	case 0:
		c.Files = append(c.Files, f)
		if f.UncompressedSize64 > uint64(limits.Bytes) {
			return Unsafe("entry %q has %d bytes; the limit is %d", f.Name, f.UncompressedSize64, limits.Bytes)
		}
		if c.Bytes += int64(f.UncompressedSize64); c.Bytes > limits.Bytes {
			return Unsafe("it unpacks to more than %d bytes", limits.Bytes)
		}
	default:
		return Unsafe("entry %q is not a file, directory or link", f.Name)
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

// WriteFile writes a file of the archive below root, with its directories. It refuses
// content that is not as long as its header says or has another checksum.
func WriteFile(ctx context.Context, root *os.Root, f *zip.File, name string, mode fs.FileMode) error {
	if err := MakeDirs(ctx, root, path.Dir(name)); err != nil {
		return err
	}
	content, err := f.Open()
	if err != nil {
		return Unsafe("%w", err)
	}
	defer content.Close()
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	// Reading one byte more than announced detects a wrong size.
	written, err := io.Copy(file, &contextReader{ctx, io.LimitReader(content, int64(f.UncompressedSize64)+1)})
	err = errors.Join(err, file.Chmod(mode), file.Close())
	if errors.Is(err, zip.ErrFormat) || errors.Is(err, zip.ErrChecksum) || uint64(written) > f.UncompressedSize64 {
		return Unsafe("its content does not match the archive's headers")
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
