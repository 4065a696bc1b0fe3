package install_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/browser-svc/svc/worker/internal/browser/install"
)

func TestRemove_RefusesRunningBuild(t *testing.T) {
	r := newFixture(t)
	sleep, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	r.publish(archive(t, entry{name: "chrome", content: string(sleep), mode: 0o755}))
	r.install(t)
	cmd := exec.Command(filepath.Join(r.Dir, version, "chrome"), "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, err = r.Remove(t.Context(), "153")
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if !errors.Is(err, install.ErrInUse) {
		t.Fatalf("while a browser runs: %v", err)
	}
	if installed, _ := r.Installed(); len(installed) != 1 {
		t.Errorf("installed %v", installed)
	}
	if removed, err := r.Remove(t.Context(), "153"); err != nil || removed != version {
		t.Errorf("removed %q (%v)", removed, err)
	}
	if installed, _ := r.Installed(); len(installed) != 0 {
		t.Errorf("installed %v", installed)
	}
	if _, err := r.Remove(t.Context(), version); err == nil || !strings.Contains(err.Error(), "is not installed") {
		t.Errorf("second removal: %v", err)
	}
}

func TestRemove_NeedsFullVersionWhenAmbiguous(t *testing.T) {
	r := newFixture(t)
	for _, v := range []string{"153.0.1.1", "153.0.1.2"} {
		if err := os.MkdirAll(filepath.Join(r.Dir, v), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Remove(t.Context(), "153"); err == nil || !strings.Contains(err.Error(), "153.0.1.1, 153.0.1.2") {
		t.Errorf("by major version: %v", err)
	}
	if removed, err := r.Remove(t.Context(), "153.0.1.2"); err != nil || removed != "153.0.1.2" {
		t.Errorf("removed %q (%v)", removed, err)
	}
}
