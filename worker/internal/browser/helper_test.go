package browser_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/browser/proxy"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
	"github.com/browser-svc/svc/worker/internal/data/files"
)

func systemBuild(t *testing.T) builds.Build {
	t.Helper()
	installed, err := builds.NewFinder(builds.FindOptions{}).Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(installed, func(b builds.Build) bool { return b.Headful })
	if i < 0 {
		t.Fatal("no Chromium is installed; these tests need one")
	}
	return installed[i]
}

// majorBuilds returns one build of each installed major version and engine: the system's
// and those of scripts/browsers.
func majorBuilds(t *testing.T) []builds.Build {
	t.Helper()
	store, err := filepath.Abs("../../../.svc/browsers")
	if err != nil {
		t.Fatal(err)
	}
	installed, err := builds.NewFinder(builds.FindOptions{Dirs: []string{store}, Log: testLog(t)}).Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	installed = slices.CompactFunc(installed, func(a, b builds.Build) bool { return a.Major == b.Major && a.Engine == b.Engine })
	versions, shells := map[int]bool{}, 0
	for _, b := range installed {
		versions[b.Major] = true
		if b.Engine == builds.HeadlessShell && b.Major == systemBuild(t).Major {
			shells++
		}
	}
	if len(versions) < 3 || shells == 0 {
		t.Fatalf("%d major versions, %d headless shells of the system's version are installed, want three and one: scripts/browsers, scripts/need headless-shell", len(versions), shells)
	}
	return installed
}

// headlessShell returns the headless shell of the system.
func headlessShell(t *testing.T) builds.Build {
	t.Helper()
	installed, err := builds.NewFinder(builds.FindOptions{Log: testLog(t)}).Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(installed, func(b builds.Build) bool { return b.Engine == builds.HeadlessShell })
	if i < 0 {
		t.Fatal("no headless shell is installed: scripts/need headless-shell")
	}
	return installed[i]
}

// fixture is a launcher with its directory and a build.
type fixture struct {
	*browser.Launcher
	dir      string
	build    builds.Build
	isolated bool // browsers have a separate network
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureWith(t, func(*browser.Options) {})
}

func newFixtureWith(t *testing.T, change func(*browser.Options)) *fixture {
	t.Helper()
	top := testenv.PublicTempDir(t)
	dir := filepath.Join(top, "launches")
	stored, err := files.Open(files.Options{Dir: filepath.Join(top, "files"), Quota: 64 << 20, Log: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	options := browser.Options{Dir: dir, Log: testLog(t), Files: stored}
	change(&options)
	l, err := browser.NewLauncher(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Close()
		if left, err := os.ReadDir(stored.Dir); err != nil || len(left) > 0 {
			t.Errorf("files left: %v %v", left, err)
		}
		stored.Wait()
	})
	return &fixture{Launcher: l, dir: dir, build: systemBuild(t), isolated: l.Isolation().On(sandbox.NetworkNamespace)}
}

// withShell makes the fixture launch a headless shell, which takes a third of the processor
// time, for tests that do not depend on the engine. At full depth it keeps the complete
// browser.
func (r *fixture) withShell(t *testing.T) *fixture {
	t.Helper()
	if !testenv.Full() {
		r.build = headlessShell(t)
	}
	return r
}

func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (r *fixture) spec(id string) browser.Spec {
	return browser.Spec{LaunchID: id, Build: r.build, Headless: true}
}

func (r *fixture) launch(t *testing.T, spec browser.Spec) *browser.Browser {
	t.Helper()
	if r.isolated && spec.ProxyServer == "" {
		spec.ProxyServer, spec.OnProxyListener = startEgress(t)
	}
	b, err := r.Launch(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Kill(context.Background()) })
	return b
}

// startEgress starts a proxy that allows every site of this machine.
func startEgress(t *testing.T) (server string, moved func(net.Listener)) {
	t.Helper()
	policy, err := proxy.ParseDenylist("")
	if err != nil {
		t.Fatal(err)
	}
	wall, err := proxy.NewEgressPolicy(proxy.Rules{Denylist: policy, AllowLocal: true})
	if err != nil {
		t.Fatal(err)
	}
	egress, err := proxy.Start(wall, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(egress.Close)
	return egress.Address(), egress.MoveTo
}

// assertNoLeaks fails if a launch has leaked processes, directories or links.
func (r *fixture) assertNoLeaks(t *testing.T) {
	t.Helper()
	if left := markedProcesses(r.dir); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			t.Errorf("directory left: %s", e.Name())
		}
	}
	links, err := filepath.Glob("/tmp/svc-tmp-*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, r.dir+"/") {
			t.Errorf("link left: %s", link)
		}
	}
}

// processTree returns a browser's live processes: those of its group, and those of
// its user unless the test runs as that user.
func processTree(pid int) []int {
	_, uid, _, ok := stat(pid)
	if !ok {
		return nil
	}
	command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	_, root, _ := strings.Cut(string(command), "--svc-launch=")
	root, _, _ = strings.Cut(strings.ReplaceAll(root, " ", "\x00"), "\x00")
	return processesWhere(func(p, pgid, puid int) bool {
		return pgid == pid || (uid != os.Geteuid() && puid == uid) ||
			(root != "" && strings.Contains(environ(p)+"\x00", "SVC_LAUNCH="+root+"\x00"))
	})
}

func environ(pid int) string {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return string(raw)
}

// treeEnviron returns the environment of a browser, read from its crash handlers; the
// other processes overwrite theirs.
func treeEnviron(t *testing.T, pid int) string {
	t.Helper()
	for _, p := range processTree(pid) {
		if env := environ(p); strings.HasPrefix(env, "PATH=") && strings.Contains(env, "XDG_RUNTIME_DIR=") {
			return env
		}
	}
	t.Fatal("found no process with the environment")
	return ""
}

func markedProcesses(dir string) []int {
	return processesWhere(func(pid, _, _ int) bool {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return bytes.Contains(command, []byte("="+dir+"/")) || strings.Contains(environ(pid), "SVC_LAUNCH="+dir+"/")
	})
}

func processesWhere(match func(pid, pgid, uid int) bool) []int {
	entries, _ := os.ReadDir("/proc")
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if pgid, uid, alive, ok := stat(pid); ok && alive && match(pid, pgid, uid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func stat(pid int) (pgid, uid int, alive, ok bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, false, false
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	pgid, _ = strconv.Atoi(fields[2])
	uid, _ = strconv.Atoi(strings.Fields(statusField(pid, "Uid") + " -1")[0])
	return pgid, uid, fields[0] != "Z", true
}

func statusField(pid int, name string) string {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.SplitSeq(string(raw), "\n") {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// eventually polls until ok, and fails after the limit.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
