package app

import (
	"archive/zip"
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/program"
	"github.com/browser-svc/svc/shared/testenv"
)

// releases runs `svc-cloud releases` with these arguments.
func releases(environ map[string]string, words ...string) (status int, out, errs string) {
	var stdout, stderr bytes.Buffer
	status = program.Program[Config]{
		Name: "svc-cloud", Environ: environ, Out: &stdout, Err: &stderr,
		Logging:  func(c Config) program.Logging { return c.Logging },
		Commands: []program.Command[Config]{releasesCommand(&stdout, &stderr)},
	}.Main(append([]string{"releases"}, words...))
	return status, stdout.String(), stderr.String()
}

func build(t *testing.T, names ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "build.zip")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w := zip.NewWriter(file)
	for _, name := range names {
		entry, err := w.Create(name)
		if err == nil {
			_, err = io.WriteString(entry, name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReleasesCommand_WorksWithAndWithoutRunningCloud(t *testing.T) {
	dir, port := testenv.PublicTempDir(t), testenv.FreePort(t)
	environ := map[string]string{"DATA_DIR": dir, "HOST": "127.0.0.1", "PORT": strconv.Itoa(port), "LOG_LEVEL": "error"}
	cycle := func(t *testing.T) {
		status, out, errs := releases(environ, "add", build(t, "a/chrome"), "--version", "153.0.7727.15", "--channel", "beta")
		if status != 0 || !strings.HasPrefix(out, "Published 153.0.7727.15 for linux x86_64, ") || !strings.Contains(errs, "Storing 100% of") {
			t.Fatalf("add: %d %q %q", status, out, errs)
		}
		status, _, errs = releases(environ, "add", build(t, "chromium"), "--version", "153.0.7727.15")
		if status != 1 || !strings.Contains(errs, "Another archive is already published as 153.0.7727.15 for linux x86_64.") {
			t.Errorf("add another: %d %q", status, errs)
		}
		status, out, errs = releases(environ, "list")
		if status != 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), "SHA-256 153.0.7727.15 beta linux x86_64 1") {
			t.Errorf("list: %d %q %q", status, out, errs)
		}
		status, out, errs = releases(environ, "remove", "153.0.7727.15")
		if status != 0 || out != "Removed 153.0.7727.15 for linux x86_64\n" {
			t.Errorf("remove: %d %q %q", status, out, errs)
		}
		if status, _, errs = releases(environ, "remove", "153.0.7727.15"); status != 1 || !strings.Contains(errs, "No such browser build.") {
			t.Errorf("remove again: %d %q", status, errs)
		}
	}
	t.Run("alone", cycle)

	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	config := Config{Host: "127.0.0.1", Port: port, DataDir: dir}
	go func() { done <- Serve(ctx, config, slog.New(slog.DiscardHandler)) }()
	awaitHealth(t, port, done)
	t.Run("beside", cycle)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*"+addressSuffix)); len(left) > 0 {
		t.Errorf("remaining objects: %v", left)
	}
}

func TestReleasesCommand_Errors(t *testing.T) {
	environ := map[string]string{"DATA_DIR": testenv.PublicTempDir(t), "LOG_LEVEL": "error"}
	for line, want := range map[string]string{
		"add /nonexistent --version 1.2.3.4":                      "no such file",
		"add " + build(t, "chrome"):                               `not ""`,
		"add " + build(t, "readme") + " --version 153.0.1.1":      "the archive contains no browser",
		"add " + build(t, "chrome") + " --version 1.1.1.1 --os x": "the operating system must be one of",
	} {
		if status, out, errs := releases(environ, strings.Fields(line)...); status != 1 || !strings.Contains(errs, want) || out != "" {
			t.Errorf("%s: %d %q %q", line, status, out, errs)
		}
	}
}
