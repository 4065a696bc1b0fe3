package profiledata

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// permissions are the mode bits that are kept: setuid and similar bits are dropped.
const permissions = fs.FileMode(0o777)

// packer writes a data directory as a tar archive.
type packer struct {
	ctx     context.Context
	source  *os.Root
	archive *tar.Writer // nil: only count
	max     int64       // bytes

	buffer           []byte
	content, entries int64
	skipped          skippedEntries
}

// measure counts what there is to pack and returns ErrTooLarge above the limits.
func measure(ctx context.Context, source *os.Root, limit int64) error {
	p := &packer{ctx: ctx, source: source}
	if err := p.pack(); err != nil {
		return err
	}
	if p.content > limit || p.entries > maxEntries {
		return tooLarge(p.content, p.entries, limit)
	}
	return nil
}

func tooLarge(content, entries, limit int64) error {
	return fmt.Errorf("%w: %d bytes in %d entries; the limits are %d and %d", ErrTooLarge, content, entries, limit, maxEntries)
}

// pack walks the directory in lexical order, so that equal content gives equal
// archives.
func (p *packer) pack() error {
	return fs.WalkDir(p.source.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err := errors.Join(err, p.ctx.Err()); err != nil {
			return err
		}
		if name == "." {
			return nil
		}
		if isExcluded(name, e.IsDir()) {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if err := p.add(name, e); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		return nil
	})
}

func (p *packer) add(name string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil {
		return err
	}
	header := &tar.Header{Name: name, Mode: int64(info.Mode() & permissions), ModTime: info.ModTime(), Format: tar.FormatPAX}
	switch info.Mode().Type() {
	case fs.ModeDir:
		header.Typeflag, header.Name = tar.TypeDir, name+"/"
		return p.header(header)
	case fs.ModeSymlink:
		if header.Linkname, err = p.source.Readlink(name); err != nil {
			return err
		}
		if !staysInside(name, header.Linkname) {
			p.skipped.add(name, "link leaves the directory")
			return nil
		}
		header.Typeflag, header.ModTime = tar.TypeSymlink, time.Unix(0, 0) // the time of a link cannot be restored
		return p.header(header)
	case 0:
		if isForeign(info) {
			p.skipped.add(name, "hard link to a file of another owner")
			return nil
		}
		return p.file(name, header, info)
	default:
		p.skipped.add(name, "not a file, directory or link")
		return nil
	}
}

func (p *packer) header(h *tar.Header) error {
	p.entries++
	if p.archive == nil {
		return nil
	}
	return p.archive.WriteHeader(h)
}

// file packs a regular file with the size that it had when it was found.
func (p *packer) file(name string, header *tar.Header, info fs.FileInfo) error {
	header.Typeflag, header.Size = tar.TypeReg, info.Size()
	p.content += header.Size
	if err := p.header(header); err != nil || p.archive == nil {
		return err
	}
	if p.content > p.max {
		return tooLarge(p.content, p.entries, p.max)
	}
	file, err := p.source.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if opened, err := file.Stat(); err != nil || !os.SameFile(opened, info) {
		return errors.Join(errors.New("the file was replaced while packing"), err)
	}
	if p.buffer == nil {
		p.buffer = make([]byte, bufferSize)
	}
	return copyExactly(p.archive, &contextReader{p.ctx, file}, header.Size, p.buffer)
}

// isForeign reports whether a file belongs to root and has several hard links. The
// browser never runs as root and has no such files, but it can create them where the
// kernel allows links to unreadable files.
func isForeign(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink > 1 && stat.Uid == 0
}

// staysInside reports whether a link points into the same tree, regardless of other links
// are on its path: it goes up only at its beginning, through real directories.
func staysInside(name, target string) bool {
	return target != "" && !path.IsAbs(target) && path.Clean(target) == target && filepath.IsLocal(path.Join(path.Dir(name), target))
}

// bufferSize is the size of read and write buffers.
const bufferSize = 256 << 10

// contextReader reads until its context ends.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (p *contextReader) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	return p.Reader.Read(b)
}

// copyExactly copies exactly size bytes through a buffer.
func copyExactly(dst io.Writer, src io.Reader, size int64, buffer []byte) error {
	copied, err := io.CopyBuffer(dst, io.LimitReader(src, size), buffer)
	if err == nil && copied < size {
		err = io.ErrUnexpectedEOF
	}
	return err
}
