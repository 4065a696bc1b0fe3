package browser_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestDisplay_VNCIsPrivate(t *testing.T) {
	r := newFixture(t)
	spec := r.spec("a-launch-whose-name-is-as-long-as-a-name-may-be-0123456789abcdef")
	spec.LaunchID = spec.LaunchID[:64]
	spec.Headless = false
	b := r.launch(t, spec)
	d, ok := b.Display()
	if !ok || d.Password == d.ViewPassword || len(d.Password) != 8 || len(d.ViewPassword) != 8 || len(d.Socket) > 107 {
		t.Fatalf("display %t, passwords of %d and %d bytes, socket %s", ok, len(d.Password), len(d.ViewPassword), d.Socket)
	}
	passwords := filepath.Join(r.dir, spec.LaunchID, "vncauth")
	for _, path := range []string{d.Socket, passwords} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if owner := int(info.Sys().(*syscall.Stat_t).Uid); info.Mode().Perm() != 0o600 || owner != b.UID() {
			t.Errorf("%s: mode %04o of user %d", path, info.Mode().Perm(), owner)
		}
	}
	for _, pid := range processTree(b.PID()) {
		command, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		for _, password := range []string{d.Password, d.ViewPassword} {
			if strings.Contains(string(command)+environ(pid), password) {
				t.Errorf("the command line of process %d contains a password", pid)
			}
		}
	}
	if err := b.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.assertNoLeaks(t)
}

func TestDisplay_SharesControlGroup(t *testing.T) {
	r := newIsolatedFixture(t)
	spec := r.spec("shown")
	spec.Headless = false
	b := r.launch(t, spec)
	groups := func(pid int) string {
		raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	servers := processesWhere(func(pid, _, _ int) bool {
		command, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		program, _, _ := strings.Cut(string(command), "\x00")
		return filepath.Base(program) == "Xvnc" && strings.Contains(environ(pid), "SVC_LAUNCH="+r.dir+"/shown\x00")
	})
	if len(servers) != 1 {
		t.Fatalf("displays: %v", servers)
	}
	if got, want := groups(servers[0]), groups(b.PID()); got != want {
		t.Errorf("the display is in\n%s, want\n%s", got, want)
	}
	if err := b.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	assertDead(t, servers)
	r.assertNoLeaks(t)
}

func TestDisplay_NoneWhenHeadless(t *testing.T) {
	r := newFixture(t)
	if d, ok := r.launch(t, r.spec("none")).Display(); ok {
		t.Errorf("got socket %s, want none", d.Socket)
	}
}
