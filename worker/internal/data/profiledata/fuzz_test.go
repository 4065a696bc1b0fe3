package profiledata_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/browser-svc/svc/worker/internal/data/profiledata"
)

// packed returns a tar of these entries. The content of each file is its name.
func packed(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range entries {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(h.Name))
		}
		if h.Mode == 0 {
			h.Mode = 0o700
		}
		h.Format = tar.FormatPAX
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, h.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func aDir(name string) tar.Header  { return tar.Header{Typeflag: tar.TypeDir, Name: name} }
func aFile(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }
func aLink(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
}

// writeSnapshot makes a tar the profile's only version, with the figures that its
// headers have.
func (r *fixture) writeSnapshot(t testing.TB, raw []byte) {
	t.Helper()
	var content, entries int64
	for reader := tar.NewReader(bytes.NewReader(raw)); ; entries++ {
		h, err := reader.Next()
		if err != nil {
			break
		}
		content += h.Size
	}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := profiledata.WriteSnapshot(r.path(1), raw, content, entries); err != nil {
		t.Fatal(err)
	}
}

// evil contains entries that must not be written.
var evil = []tar.Header{
	aFile("../out"), aFile("/out"), aFile("a/../../out"), aFile("a//x"), aFile("./x"), aFile("."), aDir(".."), aDir("a/../b"),
	aLink("l1", "/etc"), aLink("l2", ".."), aLink("l3", "a/../.."), aLink("a/l4", "../.."), aLink("a/l5", "../a/../../x"), aLink("l6", ""),
	aLink("a/l7", "link/../.."), aLink("a/b/l8", "up/../.."), // up points to a directory that is less deep
	aFile("nowhere/x"), aDir("nowhere/d/e"),
	{Typeflag: tar.TypeLink, Name: "hard", Linkname: "a/x"}, {Typeflag: tar.TypeFifo, Name: "fifo"},
	{Typeflag: tar.TypeChar, Name: "device", Devmajor: 1, Devminor: 3},
	aFile("a/link/x"), aDir("a/link/y"), aFile("a/x"), aDir("a/x/"), aFile(strings.Repeat("d/", 70) + "x"),
}

func TestRestore_SkipsUnsafeEntries(t *testing.T) {
	r := newFixture(t)
	good := []tar.Header{aDir("a/"), aFile("a/x"), aLink("a/link", "x"), aLink("a/dangling", "../later"), aDir("a/b"), aLink("a/b/up", "../../later"), {Typeflag: tar.TypeReg, Name: "suid", Mode: 0o4755}}
	r.writeSnapshot(t, packed(t, append(good, evil...)...))
	above := t.TempDir()
	if err := os.Mkdir(filepath.Join(above, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(filepath.Join(above, "data"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	c := r.claim(t)
	if err := c.Restore(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	var names []string
	for name, n := range read(t, root) {
		names = append(names, name)
		if n.Mode&^(fs.ModePerm|fs.ModeDir|fs.ModeSymlink) != 0 {
			t.Errorf("%s has mode %v", name, n.Mode)
		}
	}
	if len(names) != len(good) {
		t.Errorf("restored %q", names)
	}
	if around, _ := os.ReadDir(above); len(around) != 1 {
		t.Errorf("unexpected files outside the directory: %v", around)
	}
	if !strings.Contains(r.log.String(), "some entries of the profile data were not restored") || !strings.Contains(r.log.String(), "and more") {
		t.Errorf("got log\n%s", r.log)
	}
}

func TestRestore_RefusesSnapshotLargerThanStated(t *testing.T) {
	whole := packed(t, aDir("a/"), aFile("a/x"), aFile("a/y"))
	for name, figures := range map[string][2]int64{"fewer bytes": {5, 3}, "fewer entries": {6, 2}, "more bytes": {7, 3}, "more entries": {6, 4}} {
		r := newFixture(t)
		if err := os.MkdirAll(r.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := profiledata.WriteSnapshot(r.path(1), whole, figures[0], figures[1]); err != nil {
			t.Fatal(err)
		}
		assertTree(t, r.restored(t), tree{})
		if !strings.Contains(r.log.String(), "snapshot is damaged") {
			t.Errorf("%s: got log\n%s", name, r.log)
		}
	}
}

// FuzzRestore restores arbitrary bytes as the tar of a snapshot and as its compressed
// form. It checks that nothing is written outside the directory or above the limit,
// that only directories, files and links inside the directory are created, and that a
// failed restore leaves nothing.
func FuzzRestore(f *testing.F) {
	f.Add(false, packed(f, aDir("a/"), aFile("a/x"), aLink("a/l", "x")))
	for i := range evil {
		f.Add(false, packed(f, aDir("a/"), aFile("a/x"), evil[i]))
	}
	f.Add(true, []byte{})
	const limit = 1 << 20
	f.Fuzz(func(t *testing.T, compressed bool, raw []byte) {
		r := newFixture(t, func(o *profiledata.Options) { o.MaxBytes = limit })
		r.writeSnapshot(t, raw)
		if compressed {
			if err := profiledata.WritePackedSnapshot(r.path(1), raw, limit); err != nil {
				t.Fatal(err)
			}
		}
		above := t.TempDir()
		if err := os.Mkdir(filepath.Join(above, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(filepath.Join(above, "data"))
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		c := r.claim(t)
		err = c.Restore(t.Context(), root)
		found := read(t, root)
		if around, _ := os.ReadDir(above); len(around) != 1 {
			t.Fatalf("unexpected files outside the directory: %v", around)
		}
		if err != nil && len(found) > 0 {
			t.Fatalf("a failed restore left %v", found)
		}
		size := 0
		for name, n := range found {
			size += len(n.Text)
			if kind := n.Mode.Type(); kind != 0 && kind != fs.ModeDir && kind != fs.ModeSymlink || n.Mode&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
				t.Fatalf("%q has mode %v", name, n.Mode)
			}
			if n.Mode.Type() != fs.ModeSymlink {
				continue
			}
			if _, err := root.Stat(name); err != nil && strings.Contains(err.Error(), "escapes") {
				t.Fatalf("link %q points outside to %q", name, n.Target)
			}
		}
		if size > limit {
			t.Fatalf("%d bytes were restored", size)
		}
	})
}

// trailerBytes is the size of the trailer of a snapshot.
const trailerBytes = 120

// FuzzDamaged replaces the current version with arbitrary bytes. It checks that the
// saved content is restored, or the previous version; in that case the bytes are
// quarantined unchanged. The previous version must not change.
func FuzzDamaged(f *testing.F) {
	writer := newFixture(f)
	if err := os.MkdirAll(writer.dir, 0o700); err != nil {
		f.Fatal(err)
	}
	snapshotOf := func(name string) []byte {
		writer.writeSnapshot(f, packed(f, aDir("a/"), aFile("a/"+name)))
		raw, err := os.ReadFile(writer.path(1))
		if err != nil {
			f.Fatal(err)
		}
		return raw
	}
	good, current := snapshotOf("currant"), snapshotOf("current")
	f.Add(current)
	f.Add(good)
	f.Add([]byte{})
	f.Add(current[:len(current)-1])
	f.Add(append(bytes.Clone(good[:len(good)-trailerBytes]), current[len(current)-trailerBytes:]...))
	f.Add(append(bytes.Clone(current), current...))
	for _, at := range []int{0, 5, 30, len(current) - 130, len(current) - 100, len(current) - 50, len(current) - 1} {
		flipped := bytes.Clone(current)
		flipped[at] ^= 1
		f.Add(flipped)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		r := newFixture(t)
		if err := os.MkdirAll(r.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for number, raw := range map[int][]byte{1: good, 2: content} {
			if err := os.WriteFile(r.path(number), raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		assertRestored(t, r, good, content)
	})
}

// assertRestored checks a restore with a good previous version and these bytes as the
// current version.
func assertRestored(t *testing.T, r *fixture, good, content []byte) {
	t.Helper()
	got := r.restored(t)
	before, err := os.ReadFile(r.path(1))
	if err != nil || !bytes.Equal(before, good) {
		t.Fatalf("the previous version has changed: %v", err)
	}
	if len(r.numbers(t)) == 2 { // then the bytes must be a complete snapshot
		end := content[len(content)-trailerBytes:]
		if sum := sha256.Sum256(end[:trailerBytes-sha256.Size]); !bytes.HasSuffix(end, sum[:]) {
			t.Errorf("%x was restored", content)
		}
		if _, ok := got["a/current"]; !ok && !bytes.Equal(content, good) || got["a/current"].Text != "a/current" && !bytes.Equal(content, good) {
			t.Errorf("%x was restored as %v", content, got)
		}
		return
	}
	if len(got) != 2 || got["a/currant"].Text != "a/currant" {
		t.Errorf("got %v, want the previous version", got)
	}
	if kept, err := os.ReadFile(r.path(2) + ".bad"); err != nil || !bytes.Equal(kept, content) {
		t.Errorf("the version was not quarantined: %v", err)
	}
}
