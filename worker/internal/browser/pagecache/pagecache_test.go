package pagecache_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/worker/internal/browser/pagecache"
)

const size = 12<<20 + 5008

// newFile returns a file that is not in the page cache.
func newFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "program"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := f.Write(bytes.Repeat([]byte("0123456789"), size/10)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	evict(t, f)
	return f
}

func evict(t *testing.T, f *os.File) {
	t.Helper()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
}

// newSmallFile returns a file that is in the page cache in small pages.
func newSmallFile(t *testing.T) *os.File {
	t.Helper()
	f := newFile(t)
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM); err != nil { // without reading ahead
		t.Fatal(err)
	}
	for offset := int64(0); offset < size; offset += 4096 {
		if _, err := f.ReadAt(make([]byte, 1), offset); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// mapFile maps a file until the test ends.
func mapFile(t *testing.T, f *os.File) []byte {
	t.Helper()
	mapped, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mapped) })
	return mapped
}

// cached returns how many of the file's bytes are in the page cache.
func cached(t *testing.T, f *os.File) (count int64) {
	t.Helper()
	page := int64(os.Getpagesize())
	pages := make([]byte, (size+page-1)/page)
	mapped := mapFile(t, f)
	if _, _, err := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mapped[0])), size, uintptr(unsafe.Pointer(&pages[0]))); err != 0 {
		t.Fatal(err)
	}
	for _, state := range pages {
		count += int64(state&1) * page
	}
	return count
}

func load(t *testing.T, f *os.File) pagecache.Result {
	t.Helper()
	got, err := pagecache.Load(t.Context(), f.Name())
	if err != nil {
		t.Fatal(err)
	}
	if n := cached(t, f); n < size || got.Size != size {
		t.Errorf("%d of %d bytes are in the page cache; got %+v", n, size, got)
	}
	return got
}

// TestLoad_ReplacesSmallPages loads files that are not in the page cache, in huge pages and in
// small pages. Some file systems have no huge pages: then there are none in all cases.
func TestLoad_ReplacesSmallPages(t *testing.T) {
	f := newFile(t)
	first := load(t, f)
	if again := load(t, f); again != first {
		t.Errorf("got %+v, then %+v", first, again)
	}
	if first.Huge != 0 && first.Huge < size-4<<20 {
		t.Errorf("got %+v", first)
	}
	if got := load(t, newSmallFile(t)); got != first {
		t.Errorf("from small pages: got %+v, want %+v", got, first)
	}
	t.Logf("%+v", first)
}

// TestLoad_KeepsFileInUse loads a file whose first page is in use, as that of a program that
// runs. Reading it again would slow the program down.
func TestLoad_KeepsFileInUse(t *testing.T) {
	f := newSmallFile(t)
	if mapped := mapFile(t, f); mapped[0] != '0' {
		t.Fatal("wrong content")
	}
	if got := load(t, f); got.Huge > 0 {
		t.Errorf("got %+v", got)
	}
}

func TestLoad_ReturnsErrors(t *testing.T) {
	if _, err := pagecache.Load(t.Context(), filepath.Join(t.TempDir(), "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := pagecache.Load(t.Context(), t.TempDir()); err == nil {
		t.Error("a directory was loaded")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pagecache.Load(ctx, newFile(t).Name()); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := pagecache.Load(t.Context(), empty); err != nil || got != (pagecache.Result{}) {
		t.Errorf("empty: %+v, %v", got, err)
	}
}
