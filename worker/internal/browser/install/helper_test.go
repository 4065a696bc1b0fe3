package install_test

import (
	"archive/zip"
	"bytes"
	"context"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser/install"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

const version = "153.0.7727.15"

// entry is an entry of an archive.
type entry struct {
	name    string
	content string
	mode    fs.FileMode
	extra   []byte
}

func (e entry) write(t testing.TB, w *zip.Writer) {
	t.Helper()
	header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Extra: e.extra}
	header.SetMode(e.mode)
	file, err := w.CreateHeader(header)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write([]byte(e.content)); err != nil {
		t.Fatal(err)
	}
}

func file(name, content string) entry { return entry{name: name, content: content, mode: 0o644} }
func program(name string) entry       { return entry{name: name, content: "#!", mode: 0o755} }
func symlink(name, target string) entry {
	return entry{name: name, content: target, mode: fs.ModeSymlink | 0o777}
}

func archive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range entries {
		e.write(t, w)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// randomContent returns incompressible content.
func randomContent(n int) string {
	source := rand.NewChaCha8([32]byte{1})
	out := make([]byte, n)
	_, _ = source.Read(out)
	return string(out)
}

// canary accepts every build and records the builds that it was asked to test.
type canary struct {
	version string
	err     error
	tried   []string
	during  func(executable string)
}

func (c *canary) Try(_ context.Context, executable, _ string) (string, error) {
	c.tried = append(c.tried, executable)
	if c.during != nil {
		c.during(executable)
	}
	if c.version == "" {
		return version, c.err
	}
	return c.version, c.err
}

// fixture is an installer and its catalog.
type fixture struct {
	*install.Installer
	cloud  *cloudtest.Catalog
	canary *canary
	parent string // of Dir
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	cloud := cloudtest.NewCatalog(t)
	source, err := install.NewCatalog(cloud.URL, cloudtest.Key, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &fixture{cloud: cloud, canary: &canary{}, parent: testenv.PublicTempDir(t)}
	r.Installer = &install.Installer{
		Dir: filepath.Join(r.parent, "browsers"), Source: source, Canary: r.canary, Pause: time.Millisecond,
	}
	return r
}

func (r *fixture) publish(archive []byte) {
	system, arch := install.Platform()
	r.cloud.Publish(version, system, arch, archive)
}

// install installs the version and fails the test on an error.
func (r *fixture) install(t *testing.T) {
	t.Helper()
	got, fresh, err := r.Install(t.Context(), version)
	if err != nil || !fresh || got.Version != version {
		t.Fatalf("installed %+v, fresh %v: %v", got, fresh, err)
	}
}

// assertNotInstalled fails if an install left anything except a partial download that
// can be resumed.
func (r *fixture) assertNotInstalled(t *testing.T) {
	t.Helper()
	if installed, err := r.Installed(); err != nil || len(installed) > 0 {
		t.Errorf("installed %v (%v)", installed, err)
	}
	err := filepath.WalkDir(r.parent, func(path string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(r.parent, path)
		if slices.Contains([]string{".", "browsers", "browsers/.install", "browsers/.install/lock", "browsers/.install/unpack"}, name) ||
			filepath.Ext(name) == ".part" {
			return err
		}
		t.Errorf("leftover: %s", name)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func (r *fixture) partialFiles(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(r.Dir, ".install", "*.part"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
