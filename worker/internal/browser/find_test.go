package browser_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
)

func TestFindResolvesTheSystemsWrapperToItsBinaryOnce(t *testing.T) {
	builds, err := browser.NewFinder(browser.FindOptions{}).Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	paths := make(map[string]bool)
	for _, b := range builds {
		magic, err := os.ReadFile(b.Path)
		if err != nil || !bytes.HasPrefix(magic, []byte("\x7fELF")) {
			t.Errorf("%s is no executable: %v", b.Path, err)
		}
		if paths[b.Path] {
			t.Errorf("%s is listed twice", b.Path)
		}
		paths[b.Path] = true
		if b.Major < 50 || len(strings.Split(b.Version, ".")) != 4 {
			t.Errorf("version %q, major %d", b.Version, b.Major)
		}
	}
	wrapper, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal(err)
	}
	named, err := browser.NewFinder(browser.FindOptions{Path: wrapper}).Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(named, builds) {
		t.Errorf("by its wrapper %+v, want %+v", named, builds)
	}
}

func TestFindListsTheBuildsUnderADirectoryAndLeavesOutWhatIsNone(t *testing.T) {
	system := systemBuild(t)
	dir := testenv.PublicTempDir(t)
	for _, name := range []string{"shell/headless_shell", "broken/chrome", "text/chrome"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// A lone binary, without the files of a whole browser beside it.
	raw, err := os.ReadFile("/bin/echo")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "broken/chrome"), raw, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "text/chrome"), []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	link(t, system.Path, filepath.Join(dir, "shell/headless_shell"))
	for _, data := range []string{"icudtl.dat", "v8_context_snapshot.bin"} {
		link(t, filepath.Join(filepath.Dir(system.Path), data), filepath.Join(dir, "shell", data))
	}
	builds, err := browser.NewFinder(browser.FindOptions{Path: system.Path, Dirs: []string{dir}}).Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []browser.Build{system, {Major: system.Major, Version: system.Version, Path: filepath.Join(dir, "shell/headless_shell")}}
	if !slices.Equal(builds, want) {
		t.Errorf("got %+v, want %+v", builds, want)
	}
}

// link makes a hard link, or a copy where the file systems differ.
func link(t *testing.T, from, to string) {
	t.Helper()
	if os.Link(from, to) == nil {
		return
	}
	raw, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, raw, 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestFindFailsWhenTheConfiguredPathIsNoBrowser(t *testing.T) {
	for _, path := range []string{"/nonexistent", "/bin/echo"} {
		if builds, err := browser.NewFinder(browser.FindOptions{Path: path}).Find(t.Context()); err == nil {
			t.Errorf("%s: found %+v", path, builds)
		}
	}
}
