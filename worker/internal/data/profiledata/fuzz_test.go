package profiledata_test

import (
	"archive/tar"
	"bytes"
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

// writeVersion writes a version with this tar, and the counts that its headers have.
func (r *fixture) writeVersion(t testing.TB, number int, raw []byte) {
	t.Helper()
	var content, entries int64
	for reader := tar.NewReader(bytes.NewReader(raw)); ; entries++ {
		h, err := reader.Next()
		if err != nil {
			break
		}
		content += h.Size
	}
	if err := r.WriteVersion(profileID, number, raw, content, entries); err != nil {
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
	r.writeVersion(t, 1, packed(t, append(good, evil...)...))
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
		if err := r.WriteVersion(profileID, 1, whole, figures[0], figures[1]); err != nil {
			t.Fatal(err)
		}
		assertTree(t, r.restored(t), tree{})
		if !strings.Contains(r.log.String(), "snapshot is damaged") {
			t.Errorf("%s: got log\n%s", name, r.log)
		}
	}
}

// FuzzRestore restores arbitrary bytes as the tar of a version. It checks that nothing is written outside the directory or above the limit,
// that only directories, files and links inside the directory are created, and that a
// failed restore leaves nothing.
func FuzzRestore(f *testing.F) {
	f.Add(packed(f, aDir("a/"), aFile("a/x"), aLink("a/l", "x")))
	for i := range evil {
		f.Add(packed(f, aDir("a/"), aFile("a/x"), evil[i]))
	}
	f.Add([]byte{})
	const limit = 1 << 20
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := newFixture(t, func(o *profiledata.LocalOptions) { o.MaxBytes = limit })
		r.writeVersion(t, 1, raw)
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

// FuzzDamaged replaces an object of the current version by arbitrary bytes. It checks that
// the saved content is restored, or the previous version; in that case the bytes are
// quarantined unchanged. The previous version must not change.
func FuzzDamaged(f *testing.F) {
	write := func(t testing.TB) *fixture {
		r := newFixture(t)
		r.writeVersion(t, 1, packed(t, aDir("a/"), aFile("a/previous")))
		r.writeVersion(t, 2, packed(t, aDir("a/"), aFile("a/current")))
		return r
	}
	object := func(t testing.TB, r *fixture, inManifest bool) string {
		if inManifest {
			return r.manifest(2)
		}
		return r.chunk(t, 2)
	}
	for _, inManifest := range []bool{false, true} {
		r := write(f)
		current, err := os.ReadFile(object(f, r, inManifest))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(inManifest, current)
		f.Add(inManifest, []byte{})
		f.Add(inManifest, current[:len(current)-1])
		f.Add(inManifest, bytes.Repeat(current, 2))
		for _, offset := range []int{0, 12, 30, len(current) / 2, len(current) - 1} {
			flipped := bytes.Clone(current)
			flipped[offset] ^= 1
			f.Add(inManifest, flipped)
		}
	}
	f.Fuzz(func(t *testing.T, inManifest bool, content []byte) {
		r := write(t)
		path := object(t, r, inManifest)
		saved, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		want := "a/previous"
		if bytes.Equal(saved, content) {
			want = "a/current"
		}
		got := r.restored(t)
		if len(got) != 2 || got[want].Text != want {
			t.Errorf("got %v, want %s", got, want)
		}
		if quarantined := len(r.numbers(t)) == 1; quarantined != (want == "a/previous") {
			t.Errorf("got versions %v", r.numbers(t))
		}
		resolved, err := filepath.EvalSymlinks(r.path(2) + ".bad")
		if kept, failed := os.ReadFile(filepath.Join(resolved, filepath.Base(path))); want == "a/previous" && (err != nil || failed != nil || !bytes.Equal(kept, content)) {
			t.Errorf("the version was not quarantined: %v %v", err, failed)
		}
	})
}
