package profiledata_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/worker/internal/data/profiledata"
)

func TestRestore_RestoresModesAndTimes(t *testing.T) {
	r := newFixture(t)
	assertTree(t, r.restored(t), tree{})
	r.save(t, sampleTree(1))
	assertTree(t, r.restored(t), sampleTree(1))
	r.save(t, sampleTree(2))
	assertTree(t, r.restored(t), sampleTree(2))
	left, err := filepath.Glob(filepath.Join(r.dir, "*"))
	if err != nil || len(left) != 5 { // the lock, and each version with its objects
		t.Errorf("the directory contains %v", left)
	}
	for path, mode := range map[string]fs.FileMode{r.path(1): 0o700, r.manifest(1): 0o600, r.chunk(t, 1): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("the mode of %s: %v %v", path, info, err)
		}
	}
}

func TestSave_KeepsOnlyNewestVersions(t *testing.T) {
	r := newFixture(t)
	for i := range 5 {
		r.save(t, sampleTree(i))
	}
	if got := r.numbers(t); !slices.Equal(got, []int{5, 4, 3}) {
		t.Errorf("kept %v", got)
	}
}

func TestSave_UnchangedDataCreatesNoVersion(t *testing.T) {
	r := newFixture(t)
	r.save(t, sampleTree(1))
	r.save(t, sampleTree(1))
	if got := r.numbers(t); !slices.Equal(got, []int{1}) {
		t.Errorf("got versions %v", got)
	}
	c := r.claim(t)
	root := emptyRoot(t)
	if err := errors.Join(c.Restore(t.Context(), root), c.Save(t.Context(), root)); err != nil {
		t.Fatal(err)
	}
	if got := r.numbers(t); !slices.Equal(got, []int{1}) {
		t.Errorf("restored and saved, got versions %v", got)
	}
}

func TestSave_UnchangedDataReplacesDamagedVersion(t *testing.T) {
	r := newFixture(t)
	c := r.claim(t)
	restore(t, c)
	if err := c.Save(t.Context(), sampleTree(1).write(t)); err != nil {
		t.Fatal(err)
	}
	corruptFile(t, r.chunk(t, 1), 10)
	if err := c.Save(t.Context(), sampleTree(1).write(t)); err != nil {
		t.Fatal(err)
	}
	c.Release()
	assertTree(t, r.restored(t), sampleTree(1))
}

func TestSave_TooLargeErrorHoldsFigures(t *testing.T) {
	r := newFixture(t, func(o *profiledata.LocalOptions) { o.MaxBytes = 1000 })
	r.save(t, sampleTree(1))
	c := r.claim(t)
	restore(t, c)
	large := sampleTree(2)
	large["Default/History"] = file(strings.Repeat("x", 2000))
	err := c.Save(t.Context(), large.write(t))
	if !errors.Is(err, profiledata.ErrTooLarge) || !strings.Contains(err.Error(), ": larger than LAUNCH_DISK_MB allows: 2027 bytes in 9 entries; the limits are 1000 and 200000") {
		t.Errorf("error %v", err)
	}
	c.Release()
	assertTree(t, r.restored(t), sampleTree(1))
}

func TestRestore_SnapshotAboveNewLimitIsKept(t *testing.T) {
	r := newFixture(t)
	r.save(t, sampleTree(1))
	r.save(t, sampleTree(2))
	r.opts.MaxBytes = 10
	small, err := profiledata.OpenLocal(r.opts)
	if err != nil {
		t.Fatal(err)
	}
	c, err := small.Acquire(profileID)
	if err != nil {
		t.Fatal(err)
	}
	root := emptyRoot(t)
	if err := c.Restore(t.Context(), root); !errors.Is(err, profiledata.ErrTooLarge) {
		t.Errorf("error %v", err)
	}
	assertTree(t, read(t, root), tree{})
	if err := c.Save(t.Context(), tree{}.write(t)); err == nil {
		t.Error("a launch without the profile's data replaced the data")
	}
	c.Release()
	assertTree(t, r.restored(t), sampleTree(2))
}

func TestSave_ExcludesCaches(t *testing.T) {
	r := newFixture(t)
	kept := tree{
		"Default": dir(), "Default/Cookies": file("x"), "Default/Cookies-journal": file(""), "Default/IndexedDB": dir(),
		"Default/IndexedDB/http_a_1.indexeddb.leveldb": dir(), "Default/IndexedDB/http_a_1.indexeddb.leveldb/000003.log": file("x"),
		"Default/Service Worker": dir(), "Default/Service Worker/CacheStorage": dir(), "Default/Service Worker/CacheStorage/1": file("x"),
		"Default/Service Worker/ScriptCache": dir(), "Default/Service Worker/ScriptCache/1": file("x"),
		"Default/Safe Browsing": dir(), "Default/Safe Browsing/Network": file("x"), "Default/x.db-wal": file("x"),
	}
	left := tree{
		"Default/Cache/Cache_Data/1": file("x"), "Default/Code Cache/js/1": file("x"), "Default/GPUCache/1": file("x"),
		"Default/DawnGraphiteCache/1": file("x"), "Default/DawnWebGPUCache/1": file("x"), "ShaderCache/1": file("x"), "GrShaderCache/1": file("x"),
		"GPUPersistentCache/GPUCache/1": file("x"), "component_crx_cache/1": file("x"), "Safe Browsing/list": file("x"), "Crashpad/reports/1.dmp": file("x"),
		"SingletonLock": link("host-12"), "SingletonCookie": link("1"), "DevToolsActivePort": file("x"), "Default/LOCK": file(""), "Default/LOG": file("x"),
		"Default/IndexedDB/http_a_1.indexeddb.leveldb/LOCK": file(""), "Default/abc.tmp": file("x"), ".org.chromium.Chromium.x1": file("x"),
		"BrowserMetrics-spare.pma": file("x"), "Default/x.db-shm": file("x"),
	}
	data := maps.Clone(left)
	maps.Copy(data, kept)
	r.save(t, data)
	assertTree(t, r.restored(t), kept)
}

func TestSave_SkipsSpecialFilesAndEscapingLinks(t *testing.T) {
	r := newFixture(t)
	data := sampleTree(1)
	data["Default/Ünï/up"] = link("../../elsewhere") // points to a directory that is less deep
	root := data.write(t)
	for name, target := range map[string]string{
		"absolute": "/etc/passwd", "above": "../x", "Default/above": "../../x", "Default/winding": "Ünï/up/../..",
	} {
		if err := root.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"fifo", "Default/fifo"} {
		if err := unix.Mkfifo(filepath.Join(root.Name(), name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	outside := filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(os.WriteFile(outside, []byte("secret"), 0o600), os.Link(outside, filepath.Join(root.Name(), "linked"))); err != nil {
		t.Fatal(err)
	}
	if err := root.Chtimes("Default", longAgo, longAgo); err != nil {
		t.Fatal(err)
	}
	c := r.claim(t)
	restore(t, c)
	if err := c.Save(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	c.Release()
	if os.Geteuid() != 0 { // the file then belongs to the current user
		data["linked"] = r.restored(t)["linked"]
	}
	assertTree(t, r.restored(t), data)
	for _, name := range []string{"absolute", "above", "Default/above", "Default/winding", "fifo", "Default/fifo"} {
		if !strings.Contains(r.log.String(), `\"`+name+`\": `) {
			t.Errorf("the log does not report that %s was skipped:\n%s", name, r.log)
		}
	}
}

// corruptFile flips a bit of the byte at an offset, from the end when it is negative.
func corruptFile(t testing.TB, path string, offset int) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if offset < 0 {
		offset += len(raw)
	}
	raw[offset] ^= 1
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}
