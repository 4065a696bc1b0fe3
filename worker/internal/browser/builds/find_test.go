package builds_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
)

func TestFind_ResolvesWrapper(t *testing.T) {
	installed, err := builds.NewFinder(builds.FindOptions{}).Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	paths := make(map[string]bool)
	for _, b := range installed {
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
	named, err := builds.NewFinder(builds.FindOptions{Path: wrapper}).Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Other builds may be installed too, such as a headless shell.
	if len(named) != 1 || !slices.Contains(installed, named[0]) || named[0].Path == wrapper {
		t.Errorf("found by its wrapper: %+v, want one of %+v", named, installed)
	}
}

func TestFind_SupportsBuildLayouts(t *testing.T) {
	dir := newBuildDir(t)
	dir.add("chromium", "Chromium 90.0.4430.1")
	dir.add("91.0.4472.1/chrome", "Google Chrome 91.0.4472.1 unknown", "resources.pak", "chrome_100_percent.pak")
	dir.add("92.0.4515.1/chrome-linux64/chrome", "Google Chrome for Testing 92.0.4515.1", "resources.pak", "chrome_100_percent.pak")
	dir.add("93.0.4577.1/chrome-headless-shell-linux64/chrome-headless-shell", "Google Chrome for Testing 93.0.4577.1")
	dir.add("debian/usr/lib/chromium/chromium", "Chromium 94.0.4606.1 built on Debian GNU/Linux 12 (bookworm)", "resources.pak", "chrome_100_percent.pak")
	dir.add("debian/usr/lib/chromium/chromium-headless-shell", "Chromium 94.0.4606.1")
	dir.add("google/opt/google/chrome/chrome", "Google Chrome 95.0.4638.1", "resources.pak", "chrome_100_percent.pak")
	dir.add("npm/headless_shell", "Chromium 96.0.4664.1")
	dir.add("npm/locales/chrome", "Chromium 97.0.4692.1")
	dir.add(".new-1/chrome", "Chromium 98.0.4758.1")
	want := []builds.Build{
		{Major: 96, Version: "96.0.4664.1", Path: dir.path("npm/headless_shell"), Engine: builds.HeadlessShell},
		{Major: 95, Version: "95.0.4638.1", Path: dir.path("google/opt/google/chrome/chrome"), Engine: builds.Chromium, Headful: true, DevTools: true, Extensions: true},
		{Major: 94, Version: "94.0.4606.1", Path: dir.path("debian/usr/lib/chromium/chromium"), Engine: builds.Chromium, Headful: true, DevTools: true, Extensions: true},
		{Major: 94, Version: "94.0.4606.1", Path: dir.path("debian/usr/lib/chromium/chromium-headless-shell"), Engine: builds.HeadlessShell},
		{Major: 93, Version: "93.0.4577.1", Path: dir.path("93.0.4577.1/chrome-headless-shell-linux64/chrome-headless-shell"), Engine: builds.HeadlessShell},
		{Major: 92, Version: "92.0.4515.1", Path: dir.path("92.0.4515.1/chrome-linux64/chrome"), Engine: builds.Chromium, Headful: true, DevTools: true, Extensions: true},
		{Major: 91, Version: "91.0.4472.1", Path: dir.path("91.0.4472.1/chrome"), Engine: builds.Chromium, Headful: true, DevTools: true, Extensions: true},
		{Major: 90, Version: "90.0.4430.1", Path: dir.path("chromium"), Engine: builds.HeadlessShell},
	}
	// Through a symbolic link, as scripts/browsers creates.
	linked := filepath.Join(testenv.PublicTempDir(t), "browsers")
	if err := os.Symlink(dir.root, linked); err != nil {
		t.Fatal(err)
	}
	elsewhere := newBuildDir(t)
	elsewhere.add("chrome", "Chromium 89.0.4389.1")
	if err := os.Symlink(elsewhere.root, dir.path("linked")); err != nil {
		t.Fatal(err)
	}
	want = append(want, builds.Build{Major: 89, Version: "89.0.4389.1", Path: elsewhere.path("chrome"), Engine: builds.HeadlessShell})
	finder := builds.NewFinder(builds.FindOptions{Path: dir.path("chromium"), Dirs: []string{linked, dir.root}})
	if diff := cmp.Diff(want, find(t, finder)); diff != "" {
		t.Errorf("builds (-want +got):\n%s", diff)
	}
}

func TestFind_SkipsAndLogsBrokenBuildsOnce(t *testing.T) {
	dir := newBuildDir(t)
	dir.add("good/chrome", "Chromium 99.0.4844.51")
	dir.add("hangs/chrome", "hang")
	dir.add("endless/chrome", "endless")
	dir.add("fails/chrome", "fail")
	dir.add("local/chrome", "Listening on 127.0.0.1")
	dir.add("rubbish/chrome", "\x00\xff no version")
	dir.write("script/chrome", []byte("#!/bin/sh\necho Chromium 98.0.4758.1\n"), 0o755)
	dir.write("empty/chrome", nil, 0o755)
	other := bytes.Clone(dir.program)
	other[18] ^= 0xff // the machine
	dir.write("foreign/chrome", other, 0o755)
	dir.write("data/chrome", dir.program, 0o644)

	var log bytes.Buffer
	finder := builds.NewFinder(builds.FindOptions{Path: dir.path("good/chrome"), Dirs: []string{dir.root},
		Timeout: 2 * time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))})
	first := find(t, finder)
	if len(first) != 1 || first[0].Major != 99 {
		t.Errorf("builds: %+v", first)
	}
	for _, name := range []string{"hangs", "endless", "fails", "local", "rubbish", "script", "empty", "foreign", "data"} {
		if n := strings.Count(log.String(), dir.path(name+"/chrome")); n != 1 {
			t.Errorf("%s was logged %d times:\n%s", name, n, &log)
		}
	}
	for _, reason := range []string{"no output within 2s", "cannot start: no library", "another architecture"} {
		if !strings.Contains(log.String(), reason) {
			t.Errorf("the log does not contain %q:\n%s", reason, &log)
		}
	}

	log.Reset()
	if again := find(t, finder); !slices.Equal(again, first) || log.Len() > 0 {
		t.Errorf("second call: %+v, logged %q", again, &log)
	}
	for _, name := range []string{"good", "hangs", "fails"} {
		if n := dir.runs(name + "/chrome"); n != 1 {
			t.Errorf("%s was queried %d times", name, n)
		}
	}
	// Killed processes end asynchronously.
	testenv.Eventually(t, "no process of the builds runs", func() bool { return len(dir.processes("")) == 0 })
}

func TestFind_QueriesBuildsConcurrently(t *testing.T) {
	dir := newBuildDir(t)
	dir.add("a/chrome", "after "+dir.path("b/chrome"))
	dir.add("b/chrome", "after "+dir.path("a/chrome"))
	finder := builds.NewFinder(builds.FindOptions{Path: dir.path("a/chrome"), Dirs: []string{dir.root}, Timeout: 20 * time.Second})
	if installed := find(t, finder); len(installed) != 2 {
		t.Errorf("builds: %+v", installed)
	}
}

// TestFind_HangingBuildDelaysNoOther adds a build that hangs to one that is usable.
func TestFind_HangingBuildDelaysNoOther(t *testing.T) {
	dir := newBuildDir(t)
	dir.add("good/chrome", "Chromium 99.0.4844.51")
	finder := builds.NewFinder(builds.FindOptions{Path: dir.path("good/chrome"), Dirs: []string{dir.root}, Timeout: 10 * time.Second})
	builds.SetNewBuildWait(finder, time.Millisecond)
	find(t, finder)
	dir.add("hangs/chrome", "hang")
	var launches sync.WaitGroup
	for range 8 {
		launches.Go(func() {
			if installed, err := finder.Find(t.Context()); err != nil || len(installed) != 1 {
				t.Errorf("got %+v, %v", installed, err)
			}
		})
	}
	launches.Wait()
	testenv.Eventually(t, "the query continues", func() bool { return len(dir.processes("hangs")) > 0 && dir.runs("hangs/chrome") == 1 })
	alone := builds.NewFinder(builds.FindOptions{Path: dir.path("hangs/chrome"), Timeout: 10 * time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	canceled := make(chan error, 1)
	go func() {
		_, err := alone.Find(ctx)
		canceled <- err
	}()
	testenv.Eventually(t, "a second query", func() bool { return dir.runs("hangs/chrome") == 2 })
	cancel()
	if err := <-canceled; !errors.Is(err, context.Canceled) || len(dir.processes("hangs")) == 0 {
		t.Errorf("a canceled call waited for the build, or returned %v", err)
	}
	for _, pid := range dir.processes("hangs") {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// TestFind_PausesAfterTransientError queries a build whose file is still being written.
func TestFind_PausesAfterTransientError(t *testing.T) {
	dir := newBuildDir(t)
	dir.add("good/chrome", "Chromium 99.0.4844.51")
	dir.add("written/chrome", "Chromium 100.0.4896.60")
	writer, err := os.OpenFile(dir.path("written/chrome"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	log := &testenv.Log{}
	finder := builds.NewFinder(builds.FindOptions{Path: dir.path("good/chrome"), Dirs: []string{dir.root}, Log: slog.New(slog.NewTextHandler(log, nil))})
	const calls = 50
	for range calls {
		find(t, finder)
	}
	if n := strings.Count(log.String(), "text file busy"); n == 0 || n == calls {
		t.Errorf("%d calls queried the build %d times", calls, n)
	}
	writer.Close()
	testenv.Eventually(t, "the build is usable", func() bool { return len(find(t, finder)) == 2 })
}

func TestFind_QueriesChangedFileAgain(t *testing.T) {
	dir := newBuildDir(t)
	dir.add("good/chrome", "Chromium 99.0.4844.51")
	dir.add("other/chrome", "fail")
	finder := builds.NewFinder(builds.FindOptions{Path: dir.path("good/chrome"), Dirs: []string{dir.root}})
	if installed := find(t, finder); len(installed) != 1 {
		t.Fatalf("builds: %+v", installed)
	}
	dir.add("other/chrome", "Chromium 101.0.4951.41")
	if installed := find(t, finder); len(installed) != 2 || installed[0].Version != "101.0.4951.41" || installed[0].Headful {
		t.Errorf("after the repair: %+v", installed)
	}
	dir.write("other/resources.pak", nil, 0o644)
	dir.write("other/chrome_100_percent.pak", nil, 0o644)
	if installed := find(t, finder); len(installed) != 2 || !installed[0].Headful {
		t.Errorf("after its files were added: %+v", installed)
	}
	if err := os.RemoveAll(dir.path("other")); err != nil {
		t.Fatal(err)
	}
	if installed := find(t, finder); len(installed) != 1 {
		t.Errorf("after its removal: %+v", installed)
	}
}

func TestFind_CancelDoesNotAffectLaterCalls(t *testing.T) {
	dir := newBuildDir(t)
	dir.add("slow/chrome", "slow")
	dir.add("hangs/chrome", "hang")
	finder := builds.NewFinder(builds.FindOptions{Path: dir.path("slow/chrome"), Dirs: []string{dir.root}, Timeout: 3 * time.Second})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if installed, err := finder.Find(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %+v, %v", installed, err)
	}
	installed := find(t, finder)
	if len(installed) != 1 || installed[0].Major != 100 {
		t.Errorf("got %+v", installed)
	}
	for _, name := range []string{"slow", "hangs"} {
		if n := dir.runs(name + "/chrome"); n != 1 {
			t.Errorf("%s was queried %d times", name, n)
		}
	}
}

func TestFind_FailsForUnusablePath(t *testing.T) {
	for _, path := range []string{"/nonexistent", "/bin/echo"} {
		if installed, err := builds.NewFinder(builds.FindOptions{Path: path}).Find(t.Context()); err == nil {
			t.Errorf("%s: found %+v", path, installed)
		}
	}
}

func BenchmarkFind_Unchanged(b *testing.B) {
	finder := builds.NewFinder(builds.FindOptions{})
	if _, err := finder.Find(b.Context()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		_, _ = finder.Find(b.Context())
	}
}

func find(t *testing.T, f *builds.Finder) []builds.Build {
	t.Helper()
	installed, err := f.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return installed
}
