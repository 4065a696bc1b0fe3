package browser_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/worker/internal/browser"
)

// TestSettled_NoticesTimezone checks that a browser that has settled notices the first change of its
// time zone immediately, and that a complete one has not settled when it has started.
func TestSettled_NoticesTimezone(t *testing.T) {
	r := newIsolatedFixture(t)
	for _, build := range majorBuilds(t) {
		spec := r.spec("settled-" + build.Version[:3] + "-" + string(build.Engine))
		spec.Build, spec.Headless, spec.Warm = build, true, true
		b := r.launch(t, spec)
		if early := b.Settled(); early && build.Headful && time.Since(b.StartedAt) < time.Second {
			t.Errorf("%s has settled %v after its start", build.Version, time.Since(b.StartedAt))
		}
		eventually(t, 30*time.Second, "the browser to settle", b.Settled)
		settled := time.Since(b.StartedAt)
		began := time.Now()
		if err := browser.ChangeTimezone(t.Context(), b, "Asia/Tokyo"); err != nil {
			t.Fatalf("%s: %v", build.Version, err)
		}
		took := time.Since(began)
		c := dial(t, b)
		if got := zoneOf(t, c, c.attach(t, c.pages(t)[0].TargetID)); got != "Asia/Tokyo -540" {
			t.Errorf("%s: got time zone %s", build.Version, got)
		}
		if took >= browser.DetourAfter {
			t.Errorf("%s noticed its time zone after %v", build.Version, took)
		}
		t.Logf("%s %s settled after %v, noticed its time zone in %v", build.Version, build.Engine, settled, took)
		if err := b.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPreloadTimezone checks that a warm browser reads its time zone while it waits for its
// launch, and that its zone can be changed afterwards.
func TestPreloadTimezone(t *testing.T) {
	r := newIsolatedFixture(t).withShell(t)
	b := r.launchWarm(t, r.spec("preload"))
	select {
	case <-browser.TimezonePreloaded(b):
	case <-time.After(30 * time.Second):
		t.Fatal("the time zone was not read")
	}
	spec := r.spec("preload")
	spec.TimezoneID = "Asia/Tokyo"
	eventually(t, 30*time.Second, "the browser to settle", b.Settled)
	if err := b.Configure(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	c := dial(t, b)
	if got := zoneOf(t, c, c.attach(t, c.pages(t)[0].TargetID)); got != "Asia/Tokyo -540" {
		t.Errorf("got time zone %s", got)
	}
}

func TestWatchesInode(t *testing.T) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	inodes := map[string]uint64{}
	for _, name := range []string{"watched", "other"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		inodes[name] = info.Sys().(*syscall.Stat_t).Ino
		if name == "watched" {
			if _, err := unix.InotifyAddWatch(fd, path, unix.IN_ATTRIB); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, want := range map[string]bool{"watched": true, "other": false} {
		if got, err := browser.WatchesInode(os.Getpid(), inodes[name]); err != nil || got != want {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
	if _, err := browser.WatchesInode(1<<22+1, 1); err == nil {
		t.Error("got no error for a process that does not exist")
	}
}
