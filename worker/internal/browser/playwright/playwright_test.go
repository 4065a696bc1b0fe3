package playwright_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/browser-svc/svc/worker/internal/browser/playwright"
)

// archive returns an archive of npm with files by name.
func archive(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	w := tar.NewWriter(zipped)
	for name, content := range files {
		header := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}
		if strings.HasPrefix(content, "-> ") {
			header.Typeflag, header.Linkname, header.Size, content = tar.TypeSymlink, content[3:], 0, ""
		}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func manifest(version string) string {
	return fmt.Sprintf(`{"name":"playwright-core","version":%q}`, version)
}

// newRegistry serves versions of playwright-core by their archive.
func newRegistry(t *testing.T, archives map[string][]byte) playwright.Registry {
	t.Helper()
	var address string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if version, ok := strings.CutPrefix(r.URL.Path, "/archives/"); ok {
			_, _ = w.Write(archives[version])
			return
		}
		var versions []string
		for version, content := range archives {
			sum := sha512.Sum512(content)
			if strings.HasSuffix(version, ".9") { // damaged on the way
				sum[0]++
			}
			versions = append(versions, fmt.Sprintf(`%q:{"dist":{"tarball":"%s/archives/%s","integrity":"sha512-%s"}}`, version, address, version, base64.StdEncoding.EncodeToString(sum[:])))
		}
		_, _ = fmt.Fprintf(w, `{"versions":{%s}}`, strings.Join(versions, ","))
	}))
	t.Cleanup(server.Close)
	address = server.URL
	return playwright.Registry{URL: address}
}

func TestInstall_ChoosesNewestPatchAndChecksIt(t *testing.T) {
	good := func(version string) []byte {
		return archive(t, map[string]string{"package/package.json": manifest(version), "package/lib/index.js": "x"})
	}
	registry, dir := newRegistry(t, map[string][]byte{
		"1.65.0": good("1.65.0"), "1.65.10": good("1.65.10"), "1.65.2": good("1.65.2"), "1.65.11-beta": good("1.65.11-beta"), "1.64.9": good("1.64.9"),
		"1.63.0": good("1.62.0"),
		"1.62.0": archive(t, map[string]string{"package/package.json": manifest("1.62.0"), "package/../../outside": "x"}),
		"1.61.0": archive(t, map[string]string{"package/package.json": "-> /etc/passwd"}),
	}), filepath.Join(t.TempDir(), "versions")
	for range 2 {
		got, fresh, err := registry.Install(t.Context(), dir, "1.65")
		if err != nil || got.String() != "1.65.10" {
			t.Fatalf("got %s, %v, %v", got, fresh, err)
		}
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "1.65.10/lib/index.js")); err != nil || string(raw) != "x" {
		t.Errorf("unpacked %q, %v", raw, err)
	}
	for version, want := range map[string]string{
		"1.64": "checksum", "1.63": "does not contain it", "1.62": "not a regular file", "1.61": "not a regular file", "1.60": "has no playwright-core 1.60", "latest": "is not a version",
	} {
		if _, _, err := registry.Install(t.Context(), dir, version); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", version, err, want)
		}
	}
	if _, _, err := registry.Install(t.Context(), dir, "1.65.0"); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	if _, err := playwright.Remove(dir, "1.65"); err == nil {
		t.Error("one of two patches was removed without its number")
	}
	if removed, err := playwright.Remove(dir, "1.65.10"); err != nil || removed.String() != "1.65.10" {
		t.Error(removed, err)
	}
	if all, err := playwright.List(dir); err != nil || len(all) != 1 {
		t.Error(all, err)
	}
}

func TestFind_ChoosesVersionOfClient(t *testing.T) {
	dir := t.TempDir()
	if _, err := playwright.Find(dir, "Playwright/1.65.1 (x64)"); !errors.Is(err, playwright.ErrNone) {
		t.Errorf("without versions: %v", err)
	}
	for _, path := range []string{"1.64.1", "1.65.0", "1.65.10", "1.66.0/node_modules/playwright-core", "1.67"} {
		if err := os.MkdirAll(filepath.Join(dir, path), 0o755); err != nil {
			t.Fatal(err)
		}
		version, _, _ := strings.Cut(path, "/")
		if err := os.WriteFile(filepath.Join(dir, path, "package.json"), []byte(manifest(version)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for agent, want := range map[string]string{
		"Playwright/1.65.1 (x64; debian 12) node/20.1": "1.65.10", "Playwright/1.64.0 python/3.11": "1.64.1", "Playwright/1.66.0-beta-1 (x64)": "1.66.0", "curl/8": "1.66.0", "": "1.66.0",
	} {
		if got, err := playwright.Find(dir, agent); err != nil || got.String() != want {
			t.Errorf("%q: %s, %v; want %s", agent, got, err, want)
		}
	}
	_, err := playwright.Find(dir, "Playwright/1.49.0 (x64)")
	mismatch, ok := errors.AsType[*playwright.MismatchError](err)
	if want := "server version: v1.66, v1.65, v1.64, client version: v1.49. Run svc-worker playwright install 1.49"; !ok || !strings.Contains(mismatch.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}
