package benchresult

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWrite_ReplacesOwnSection(t *testing.T) {
	file := filepath.Join(t.TempDir(), "RESULTS.md")
	for _, step := range []struct{ name, text, want string }{
		{"One", "first\n", "# Benchmark results\n\n## One\n\nfirst\n"},
		{"Two", "| a |\n|---|\n", "# Benchmark results\n\n## One\n\nfirst\n\n## Two\n\n| a |\n|---|\n"},
		{"One", "again\n\nand more", "# Benchmark results\n\n## One\n\nagain\n\nand more\n\n## Two\n\n| a |\n|---|\n"},
		{"Two", "last", "# Benchmark results\n\n## One\n\nagain\n\nand more\n\n## Two\n\nlast\n"},
		{"On", "is not One", "# Benchmark results\n\n## One\n\nagain\n\nand more\n\n## Two\n\nlast\n\n## On\n\nis not One\n"},
	} {
		if err := write(file, step.name, step.text); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, string(got)); diff != "" {
			t.Fatalf("after %s (-want +got):\n%s", step.name, diff)
		}
	}
}

func TestWrite_KeepsUnreadableFile(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir, "One", "text"); err == nil {
		t.Error("a directory was accepted as a file without sections")
	}
}
