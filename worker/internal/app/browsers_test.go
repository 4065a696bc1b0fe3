package app

import (
	"archive/zip"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/program"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/browser/install"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// browsers runs `svc-worker browsers` with the arguments words.
func browsers(environ map[string]string, words ...string) (status int, out, errs string) {
	var stdout, stderr bytes.Buffer
	status = program.Program[Config]{
		Name: "svc-worker", Environ: environ, Out: &stdout, Err: &stderr,
		Logging:  func(c Config) program.Logging { return c.Logging },
		Commands: []program.Command[Config]{browsersCommand(&stdout, &stderr)},
	}.Main(append([]string{"browsers"}, words...))
	return status, stdout.String(), stderr.String()
}

func systemChromium(t *testing.T) builds.Build {
	t.Helper()
	found, err := builds.NewFinder(builds.FindOptions{}).Find(t.Context())
	i := slices.IndexFunc(found, func(b builds.Build) bool { return b.Headful })
	if err != nil || i < 0 {
		t.Fatalf("no Chromium is installed; these tests need one (%v)", err)
	}
	return found[i]
}

// zipped returns the installed Chromium as an archive, without files that it does not
// need.
func zipped(t *testing.T, build builds.Build) []byte {
	t.Helper()
	dir := filepath.Dir(build.Path)
	var out bytes.Buffer
	out.Grow(400 << 20)
	w := zip.NewWriter(&out)
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		spared := strings.Contains(name, "validation") || strings.Contains(name, "headless") || strings.HasPrefix(name, "locales/") && !strings.Contains(name, "en-US")
		if err != nil || spared || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		header, err := zip.FileInfoHeader(info)
		if err != nil {
			return err
		}
		header.Name, header.Method = "chrome-linux/"+name, zip.Store
		entry, err := w.CreateHeader(header)
		if err != nil {
			return err
		}
		file, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = io.Copy(entry, file)
		return err
	})
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestBrowsersCommand_InstallsListsAndRemovesRealChromium(t *testing.T) {
	build := systemChromium(t)
	cloud := cloudtest.NewCatalog(t)
	system, arch := install.Platform()
	cloud.Publish(build.Version, system, arch, zipped(t, build))
	cloud.Publish("99.0.4844.51", system, arch, []byte("never downloaded"))
	cloud.Intercept(cloudtest.CutAfter(10<<20), cloudtest.CutAfter(100<<20))
	dataDir := testenv.PublicTempDir(t)
	environ := map[string]string{"DATA_DIR": dataDir, "SVC_CLOUD_URL": cloud.URL, "SVC_KEY": cloudtest.Key, "LOG_LEVEL": "error"}
	place := filepath.Join(dataDir, "browsers", build.Version)

	major, _, _ := strings.Cut(build.Version, ".")
	status, out, errs := browsers(environ, "install", major)
	if status != 0 || out != "Installed "+build.Version+" in "+place+"\n" {
		t.Fatalf("install: %d %q\n%s", status, out, errs)
	}
	for _, step := range []string{"Downloading " + build.Version + " 100% of", "Unpacking", "Testing"} {
		if !strings.Contains(errs, step) {
			t.Errorf("install did not report %q:\n%s", step, errs)
		}
	}
	if status, out, _ = browsers(environ, "install", build.Version); status != 0 || !strings.HasPrefix(out, "Already installed: "+build.Version) {
		t.Errorf("install again: %d %q", status, out)
	}

	status, out, errs = browsers(environ, "list")
	if status != 0 || errs != "" {
		t.Errorf("list: %d %q", status, errs)
	}
	for _, line := range []string{
		build.Version + " chromium yes yes yes " + filepath.Join(place, filepath.Base(build.Path)),
		build.Version + " chromium yes yes yes " + build.Path, "IN THE CATALOG CHANNEL SIZE INSTALLED", "99.0.4844.51 stable 16 B no",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), line) {
			t.Errorf("list has no %q:\n%s", line, out)
		}
	}

	found, err := builds.NewFinder(builds.FindOptions{Dirs: []string{filepath.Dir(place)}}).Find(t.Context())
	i := slices.IndexFunc(found, func(b builds.Build) bool { return strings.HasPrefix(b.Path, place+"/") })
	if err != nil || i < 0 {
		t.Fatalf("the finder returned %+v (%v)", found, err)
	}
	launcher, err := browser.NewLauncher(browser.Options{Dir: filepath.Join(dataDir, "launches")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = launcher.Close() }()
	running, err := launcher.Launch(t.Context(), browser.Spec{LaunchID: "one", Build: found[i], Headless: true})
	if err != nil {
		t.Fatal(err)
	}
	if status, _, errs = browsers(environ, "remove", major); status != 1 || !strings.Contains(errs, "is running") {
		t.Errorf("remove while it runs: %d %q", status, errs)
	}
	if err := running.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	if status, out, errs = browsers(environ, "remove", major); status != 0 || out != "Removed "+build.Version+"\n" {
		t.Errorf("remove: %d %q %q", status, out, errs)
	}
	if _, err := os.Stat(place); err == nil {
		t.Error("the build still exists after remove")
	}
}

func TestBrowsersCommand_SkipsInvalidBuild(t *testing.T) {
	cloud := cloudtest.NewCatalog(t)
	system, arch := install.Platform()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	entry, err := w.Create("chrome")
	if err == nil {
		_, err = io.WriteString(entry, "#!/bin/sh\necho Chromium 153.0.7727.15\n")
	}
	if err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	cloud.Publish("153.0.7727.15", system, arch, out.Bytes())
	dataDir := testenv.PublicTempDir(t)
	environ := map[string]string{"DATA_DIR": dataDir, "SVC_CLOUD_URL": cloud.URL, "SVC_KEY": cloudtest.Key}
	if status, _, errs := browsers(environ, "install", "153"); status != 1 || !strings.Contains(errs, "does not run here") {
		t.Errorf("install: %d %q", status, errs)
	}
	if left, _ := filepath.Glob(filepath.Join(dataDir, "browsers", "*")); len(left) != 1 { // .install
		t.Errorf("left: %v", left)
	}
}

func TestBrowsersCommand_Errors(t *testing.T) {
	environ := map[string]string{"DATA_DIR": testenv.PublicTempDir(t), "SVC_CLOUD_URL": "http://127.0.0.1:1"}
	if status, _, errs := browsers(environ, "install", "153"); status != 1 || !strings.Contains(errs, "SVC_KEY is not set") {
		t.Errorf("install without a key: %d %q", status, errs)
	}
	if status, out, errs := browsers(environ, "list"); status != 0 || !strings.Contains(out, "INSTALLED") || strings.Contains(out, "CATALOG") || errs != "" {
		t.Errorf("list without a key: %d %q %q", status, out, errs)
	}
	environ["SVC_KEY"] = cloudtest.Key
	if status, out, errs := browsers(environ, "list"); status != 0 || !strings.Contains(out, "INSTALLED") || !strings.Contains(errs, "Failed to list the catalog") {
		t.Errorf("list without a cloud: %d %q %q", status, out, errs)
	}
	if status, out, _ := browsers(environ, "install", "--help"); status != 0 || !strings.Contains(out, "Usage: svc-worker browsers install VERSION") {
		t.Errorf("help: %d %q", status, out)
	}
}
