package sandbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
)

// TestSetup_RefreshesHostFiles changes files in a private copy of /etc while a
// sandbox waits, by replacing and by writing them.
func TestSetup_RefreshesHostFiles(t *testing.T) {
	if !isHostRoot() {
		t.Log("skipped: needs root of the machine")
		return
	}
	out := runOnHost(t, `cp -a /etc etc && mount -t tmpfs none /etc && cp -a etc/. /etc && exec "$0" "$@"`, "TestHelperChangedHost")
	if !strings.Contains(out, "--- PASS: TestHelperChangedHost") {
		t.Errorf("%s", out)
	}
}

func TestHelperChangedHost(t *testing.T) {
	if os.Getenv(hostTestEnv) != t.Name() {
		return // runs only as part of the test above
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	away := func(path string) {
		t.Helper()
		if err := os.Rename(path, path+".away"); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/etc/host.conf", "/etc/gai.conf", "/etc/services", "/etc/fonts/local.conf", "/etc/glvnd/file", "/etc/drirc"} {
		write(path, "before")
	}
	if err := os.RemoveAll("/etc/vulkan"); err != nil {
		t.Fatal(err)
	}
	h := open(t, nil)
	g := h.prepare(t)
	testenv.Eventually(t, "base setup of the sandbox", func() bool {
		mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", g.cmd.Process.Pid))
		return err == nil && strings.Contains(string(mounts), " - proc proc ") && strings.Contains(string(mounts), "/etc/drirc ")
	})
	write("/etc/host.conf.new", "replaced")
	if err := os.Rename("/etc/host.conf.new", "/etc/host.conf"); err != nil {
		t.Fatal(err)
	}
	away("/etc/gai.conf")
	write("/etc/services", "written")
	write("/etc/fonts/local.conf", "written inside")
	away("/etc/glvnd")
	write("/etc/glvnd/file", "replaced inside")
	away("/etc/drirc")
	write("/etc/drirc/file", "not a file")
	write("/etc/vulkan/file", "new")
	write("/etc/opt/chrome/policies/managed/linked/text", "of the host")
	if err := os.Symlink("linked/text", "/etc/opt/chrome/policies/managed/host.json"); err != nil { // as in a volume of Kubernetes
		t.Fatal(err)
	}
	if err := os.Symlink("none", "/etc/opt/chrome/policies/managed/broken.json"); err != nil {
		t.Fatal(err)
	}
	g.exec(t, `cd /etc; for f in host.conf gai.conf services fonts/local.conf glvnd/file drirc/file vulkan/file opt/chrome/policies/managed/host.json opt/chrome/policies/managed/zzz-svc.json; do echo "$f: $(cat $f 2>&1)"; done
		test -d /usr/share/zoneinfo -a -x /bin/sh -a -x /usr/bin/env || echo "other files are missing"
		for f in /etc/vulkan/file /etc/opt/chrome/policies/managed/host.json; do (echo x > $f) 2>/dev/null && echo "$f is writable"; done`, nil)
	want := `host.conf: replaced
gai.conf: cat: gai.conf: No such file or directory
services: written
fonts/local.conf: written inside
glvnd/file: replaced inside
drirc/file: not a file
vulkan/file: new
opt/chrome/policies/managed/host.json: of the host
opt/chrome/policies/managed/zzz-svc.json: {}`
	if got := g.wait(t); got != want {
		t.Errorf("inside:\n%s\nwant\n%s", got, want)
	}
}
