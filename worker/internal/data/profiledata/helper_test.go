package profiledata_test

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/data/profiledata"
)

var profileID = uuid.MustParse("01890000-0000-7000-8000-000000000001")

// fixture is a store with a log.
type fixture struct {
	*profiledata.Local
	opts profiledata.LocalOptions
	dir  string // directory of the profile
	log  *testenv.Log
}

func newFixture(t testing.TB, change ...func(*profiledata.LocalOptions)) *fixture {
	t.Helper()
	r := &fixture{log: &testenv.Log{}}
	r.opts = profiledata.LocalOptions{
		Dir: filepath.Join(t.TempDir(), "profiles"), Versions: 3, MaxBytes: 64 << 20, Clock: clock.System{},
		Logger: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, apply := range change {
		apply(&r.opts)
	}
	r.dir = filepath.Join(r.opts.Dir, profileID.String())
	var err error
	if r.Local, err = profiledata.OpenLocal(r.opts); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *fixture) claim(t testing.TB) *profiledata.LocalHandle {
	t.Helper()
	c, err := r.Acquire(profileID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Release)
	return c
}

// restored returns the data that a launch would find.
func (r *fixture) restored(t *testing.T) tree {
	t.Helper()
	c := r.claim(t)
	defer c.Release()
	return restore(t, c)
}

func restore(t *testing.T, c *profiledata.LocalHandle) tree {
	t.Helper()
	root := emptyRoot(t)
	if err := c.Restore(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	return read(t, root)
}

// save saves this data, as a launch does.
func (r *fixture) save(t *testing.T, data tree) {
	t.Helper()
	c := r.claim(t)
	defer c.Release()
	restore(t, c)
	if err := c.Save(t.Context(), data.write(t)); err != nil {
		t.Fatal(err)
	}
}

// numbers returns the numbers of the versions, the current one first.
func (r *fixture) numbers(t *testing.T) (all []int) {
	t.Helper()
	found, err := r.Versions(t.Context(), profileID)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		all = append(all, v.Number)
	}
	return all
}

// path returns the name of a version in the list.
func (r *fixture) path(number int) string {
	return filepath.Join(r.dir, strconv.Itoa(number))
}

func (r *fixture) manifest(number int) string {
	return filepath.Join(r.path(number), "manifest")
}

// chunk returns the path of a chunk that a version added.
func (r *fixture) chunk(t testing.TB, number int) string {
	t.Helper()
	return allChunks(t, r.path(number))[0]
}

// node is a file, a directory or, with a target, a link.
type node struct {
	Mode   fs.FileMode
	Text   string
	Target string
	At     time.Time
}

// tree contains the entries of a data directory by name.
type tree map[string]node

var longAgo = time.Date(2020, 2, 3, 4, 5, 6, 789_000_000, time.UTC)

func file(text string) node { return node{Mode: 0o600, Text: text, At: longAgo} }

func dir() node { return node{Mode: fs.ModeDir | 0o700, At: longAgo} }

func link(target string) node { return node{Mode: fs.ModeSymlink, Target: target} }

// sampleTree returns a tree with all kinds of entries, and number in its content.
func sampleTree(number int) tree {
	text := fmt.Sprintf("number %d", number)
	return tree{
		"Local State": file(text), "Default": dir(), "Default/Cookies": {Mode: 0o640, Text: "cookies of " + text, At: longAgo.Add(time.Hour)},
		"Default/Empty": {Mode: fs.ModeDir | 0o500, At: longAgo}, "Default/latest": link("Cookies"), "Default/Ünï/x": file(""), "Default/Ünï": dir(),
		"up": link("Default/Cookies"),
	}
}

// write creates a directory with the tree.
func (tr tree) write(t *testing.T) *os.Root {
	t.Helper()
	root := emptyRoot(t)
	tr.into(t, root)
	return root
}

func (tr tree) into(t *testing.T, root *os.Root) {
	t.Helper()
	check := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	for name, n := range tr {
		check(root.MkdirAll(filepath.Dir(name), 0o700))
		switch n.Mode.Type() {
		case fs.ModeDir:
			check(root.MkdirAll(name, 0o700))
		case fs.ModeSymlink:
			check(root.Symlink(n.Target, name))
		default:
			check(root.WriteFile(name, []byte(n.Text), n.Mode))
			check(root.Chmod(name, n.Mode))
			check(root.Chtimes(name, n.At, n.At))
		}
	}
	for name, n := range tr {
		if n.Mode.IsDir() {
			check(root.Chmod(name, n.Mode.Perm()))
			check(root.Chtimes(name, n.At, n.At))
		}
	}
}

func emptyRoot(t testing.TB) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func read(t testing.TB, root *os.Root) tree {
	t.Helper()
	found := tree{}
	err := fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		n := node{Mode: info.Mode(), At: info.ModTime().UTC()}
		switch info.Mode().Type() {
		case fs.ModeSymlink:
			n.Target, err = root.Readlink(name)
			n.Mode, n.At = fs.ModeSymlink, time.Time{}
		case 0:
			var text []byte
			text, err = root.ReadFile(name)
			n.Text = string(text)
		}
		found[name] = n
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func assertTree(t *testing.T, got, want tree) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the data differs (-want +got):\n%s", diff)
	}
}
