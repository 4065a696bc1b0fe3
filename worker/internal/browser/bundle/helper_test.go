package bundle_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/browser-svc/svc/worker/internal/browser/bundle"
)

// dirOf returns a directory with these files.
func dirOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func load(t *testing.T, files map[string]string) *bundle.Set {
	t.Helper()
	set, err := bundle.Load(dirOf(t, files))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func filenames(bundles []bundle.Bundle) []string {
	names := []string{}
	for _, b := range bundles {
		names = append(names, b.Filename)
	}
	return names
}
