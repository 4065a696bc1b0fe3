// Package pagecache loads program files into the page cache in huge pages. Programs that map a
// file in huge pages need fewer and cheaper page faults. By default, the kernel uses small pages
// for what a program reads while it starts.
package pagecache

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const hugePage = 2 << 20

// ErrUnsupported is returned before Linux 5.14.
var ErrUnsupported = errors.New("the kernel cannot load files")

// Result describes a file in the page cache.
type Result struct {
	Size int64 // of the file, in bytes
	Huge int64 // bytes in huge pages; 0 if the file system or the kernel has none for files
}

// isHuge reports whether most of the file is in huge pages, except its end, which never is.
func (r Result) isHuge() bool { return r.Huge >= (r.Size-hugePage)*9/10 }

// Load reads a file into the page cache, in huge pages if that is possible. If the file is in
// small pages, it is removed from the page cache first, unless a program runs from it: its pages
// cannot be removed. The first page is always in use by such a program.
func Load(ctx context.Context, path string) (Result, error) {
	f, err := os.Open(path)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return Result{}, err
	}
	l := loader{file: f, result: Result{Size: info.Size()}}
	if l.result.Size == 0 {
		return l.result, nil
	}
	if err := l.load(ctx); err != nil {
		return l.result, fmt.Errorf("load %s: %w", path, err)
	}
	return l.result, nil
}

type loader struct {
	file   *os.File
	result Result
}

func (l *loader) load(ctx context.Context) error {
	if err := l.read(ctx, l.result.Size, os.Getpagesize()); err != nil {
		return err
	}
	if !l.result.isHuge() {
		if err := l.reread(ctx, hugePage); err != nil {
			return err
		}
		if l.result.Huge > 0 {
			return l.reread(ctx, l.result.Size)
		}
	}
	return l.read(ctx, l.result.Size, hugePage)
}

// reread removes the beginning of the file from the page cache, as far as it is not in use, and
// reads it again.
func (l *loader) reread(ctx context.Context, size int64) error {
	if err := unix.Fadvise(int(l.file.Fd()), 0, size, unix.FADV_DONTNEED); err != nil {
		return os.NewSyscallError("fadvise", err)
	}
	return l.read(ctx, size, hugePage)
}

// read reads the beginning of the file, of each huge page the first bytes. If these are not in
// the page cache, the kernel reads the whole huge page.
func (l *loader) read(ctx context.Context, size int64, bytes int) error {
	mapped, err := unix.Mmap(int(l.file.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	defer func() { _ = unix.Munmap(mapped) }()
	if err := unix.Madvise(mapped, unix.MADV_HUGEPAGE); err != nil && !errors.Is(err, unix.EINVAL) {
		return os.NewSyscallError("madvise", err) // EINVAL: the kernel has no huge pages
	}
	for at := 0; at < len(mapped); at += hugePage {
		if err := ctx.Err(); err != nil {
			return err
		}
		// Unlike a read of the memory, this returns the error of a damaged disk.
		err := unix.Madvise(mapped[at:min(at+bytes, len(mapped))], unix.MADV_POPULATE_READ)
		if errors.Is(err, unix.EINVAL) {
			return ErrUnsupported
		}
		if err != nil {
			return os.NewSyscallError("madvise", err)
		}
	}
	l.result.Huge, err = hugeBytes(mapped)
	return err
}

// hugeBytes returns how much of a mapped file is mapped in huge pages.
func hugeBytes(mapped []byte) (int64, error) {
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return 0, err
	}
	defer func() { _ = maps.Close() }()
	begin := strings.TrimPrefix(fmt.Sprintf("%p-", mapped), "0x") // the address
	lines, found := bufio.NewScanner(maps), false
	for lines.Scan() {
		found = found || strings.HasPrefix(lines.Text(), begin)
		if !found {
			continue
		}
		var kilobytes int64
		if _, err := fmt.Sscanf(lines.Text(), "FilePmdMapped: %d kB", &kilobytes); err == nil {
			return kilobytes << 10, nil
		}
	}
	return 0, lines.Err()
}
