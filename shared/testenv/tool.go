package testenv

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// BuildTool returns the path of a program that a module below scripts/tools pins.
// It builds the program unless it is in the build cache.
func BuildTool(t testing.TB, module, program string) string {
	t.Helper()
	_, self, _, _ := runtime.Caller(0)
	manifest := filepath.Join(filepath.Dir(self), "..", "..", "scripts", "tools", module, "go.mod")
	build := exec.CommandContext(t.Context(), "go", "tool", "-modfile="+manifest, "-n", program)
	build.Dir = filepath.Dir(manifest)
	var problem strings.Builder
	build.Stderr = &problem
	path, err := build.Output()
	if err != nil {
		t.Fatalf("build %s: %v\n%s", program, err, problem.String())
	}
	return strings.TrimSpace(string(path))
}
