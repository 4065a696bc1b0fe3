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
	"slices"
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
	size := info.Size()
	if size == 0 {
		return Result{}, nil
	}
	huge, err := load(ctx, f, size)
	if err != nil {
		return Result{}, fmt.Errorf("load %s: %w", path, err)
	}
	return Result{Size: size, Huge: huge}, nil
}

// load returns how many bytes are in huge pages.
func load(ctx context.Context, f *os.File, size int64) (huge int64, err error) {
	huge, err = read(ctx, f, size)
	if err != nil || huge >= (size-hugePage)*9/10 { // the end of a file never is in a huge page
		return huge, err
	}
	if first, err := reread(ctx, f, hugePage); err != nil || first == 0 {
		return huge, err
	}
	return reread(ctx, f, size)
}

// reread removes the beginning of a file from the page cache, as far as it is not in use, and
// reads it again.
func reread(ctx context.Context, f *os.File, size int64) (huge int64, err error) {
	if err := unix.Fadvise(int(f.Fd()), 0, size, unix.FADV_DONTNEED); err != nil {
		return 0, os.NewSyscallError("fadvise", err)
	}
	return read(ctx, f, size)
}

// read reads the beginning of a file, and returns how much of it is in huge pages. The kernel
// reads in huge pages what is not in the page cache.
func read(ctx context.Context, f *os.File, size int64) (huge int64, err error) {
	mapped, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return 0, os.NewSyscallError("mmap", err)
	}
	defer func() { _ = unix.Munmap(mapped) }()
	if err := unix.Madvise(mapped, unix.MADV_HUGEPAGE); err != nil && !errors.Is(err, unix.EINVAL) {
		return 0, os.NewSyscallError("madvise", err) // EINVAL: the kernel has no huge pages
	}
	for part := range slices.Chunk(mapped, hugePage) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		// Unlike a read of the memory, this returns the error of a damaged disk.
		err := unix.Madvise(part, unix.MADV_POPULATE_READ)
		if errors.Is(err, unix.EINVAL) {
			return 0, ErrUnsupported
		}
		if err != nil {
			return 0, os.NewSyscallError("madvise", err)
		}
	}
	return hugeBytes(mapped)
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
