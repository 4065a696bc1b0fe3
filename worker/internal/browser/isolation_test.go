package browser_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// canReadFile reports whether a client can read a file through the browser.
func canReadFile(t *testing.T, c client, page, path string) bool {
	t.Helper()
	var answer struct{ ErrorText string }
	unmarshal(t, c.call(t, page, "Page.navigate", map[string]any{"url": "file://" + path}), &answer)
	return answer.ErrorText == "" || answer.ErrorText == "net::ERR_ABORTED" // aborted: a download
}

func TestIsolation_HidesHostFiles(t *testing.T) {
	open := filepath.Join(testenv.PublicTempDir(t), "open") // protected only by its location
	if err := os.WriteFile(open, []byte("worker's"), 0o644); err != nil {
		t.Fatal(err)
	}
	oneUser := os.Geteuid() != 0 // browsers run as the worker's user
	abi, _, _ := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	landlock := int(abi) > 0
	for name, tc := range map[string]struct {
		newFixture       func(*testing.T) *fixture
		private          bool
		files, processes bool // visible host resources
		plain            bool
	}{
		"isolated": {newFixture: func(t *testing.T) *fixture { return newIsolatedFixture(t) }, private: true},
		"isolated headless shell": {newFixture: func(t *testing.T) *fixture {
			r := newIsolatedFixture(t)
			r.build = headlessShell(t)
			return r
		}, private: true},
		"without namespaces": {newFixture: func(t *testing.T) *fixture { return newIsolatedFixture(t, sandbox.PrivateFiles) }, files: !landlock, processes: true},
		"without anything":   {newFixture: newFixture, files: true, processes: true, plain: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := tc.newFixture(t)
			other := r.launch(t, r.spec("other"))
			c := dial(t, r.launch(t, r.spec("seal")))
			page := c.visit(t, "data:text/html,") // a new tab may close with a download
			listed := tc.processes || !r.Isolation().On(sandbox.ProcessList)
			for path, readable := range map[string]bool{
				"/svc/data/DevToolsActivePort":               tc.private, // the browser's file
				r.dir + "/seal/data/DevToolsActivePort":      !tc.private,
				"/usr/share/zoneinfo/UTC":                    true,
				"/etc/shadow":                                false,
				"/etc/hostname":                              tc.files,
				open:                                         tc.files,
				r.dir + "/other/launch.json":                 tc.files && oneUser,
				r.dir + "/other/data/DevToolsActivePort":     tc.files && oneUser,
				fmt.Sprintf("/proc/%d/status", os.Getpid()):  listed,
				fmt.Sprintf("/proc/%d/cmdline", other.PID()): listed,
				fmt.Sprintf("/proc/%d/environ", os.Getpid()): tc.plain && oneUser, // contains the worker's keys
			} {
				if got := canReadFile(t, c, page, path); got != readable {
					t.Errorf("%s: readable %v, want %v", path, got, readable)
				}
			}
			var listing string // a directory that cannot be opened has an empty page
			if canReadFile(t, c, page, filepath.Dir(r.dir)+"/") {
				eventually(t, time.Minute, "the loaded listing", func() bool {
					c.eval(t, page, `document.readyState === 'complete' ? 'listing: ' + document.body.innerText : ''`, &listing)
					return listing != ""
				})
			}
			if got := strings.Contains(listing, filepath.Base(r.dir)); got != tc.files {
				t.Errorf("%s: listed %v, want %v", filepath.Dir(r.dir), got, tc.files)
			}
		})
	}
}

func TestIsolation_KeepsChromiumSandbox(t *testing.T) {
	for _, headless := range []bool{true, false} {
		r := newIsolatedFixture(t)
		spec := r.spec("sandbox")
		spec.Headless = headless
		b := r.launch(t, spec)
		c := dial(t, b)
		page := c.open(t, "chrome://sandbox")
		var text string
		eventually(t, 10*time.Second, "the sandbox page", func() bool {
			c.eval(t, page, `document.body ? document.body.innerText : ''`, &text)
			return strings.Contains(text, "adequately sandboxed")
		})
		if !strings.Contains(text, "You are adequately sandboxed.") {
			t.Errorf("chrome://sandbox shows:\n%s", text)
		}
		if own := statusField(b.PID(), "NSpid"); !strings.HasSuffix(own, "\t1") {
			t.Errorf("the browser has process ids %q in its namespaces, want 1 in the last", own)
		}
		if got := statusField(b.PID(), "NoNewPrivs"); got != "1" {
			t.Errorf("got NoNewPrivs %s, want 1", got)
		}
		renderers := 0
		for _, pid := range processTree(b.PID()) {
			command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if !strings.Contains(string(command), "--type=renderer") {
				continue
			}
			renderers++
			if mode, spaces := statusField(pid, "Seccomp"), statusField(pid, "NSpid"); mode != "2" || len(strings.Fields(spaces)) < 3 || !strings.HasSuffix(spaces, "\t1") {
				t.Errorf("renderer %d: seccomp mode %s, in PID namespaces %s", pid, mode, spaces)
			}
		}
		if renderers == 0 {
			t.Error("no renderer found")
		}
	}
}

func TestIsolation_EnvironmentAndPaths(t *testing.T) {
	t.Setenv("SVC_KEY", "secret")
	r := newIsolatedFixture(t)
	b := r.launch(t, r.spec("env"))
	env := treeEnviron(t, b.PID())
	for _, want := range []string{"HOME=/svc/home", "TMPDIR=/tmp", "SVC_LAUNCH=" + r.dir + "/env"} {
		if !strings.Contains(env, "\x00"+want+"\x00") {
			t.Errorf("no %s in %q", want, env)
		}
	}
	for _, secret := range []string{"SVC_KEY", "SVC_SANDBOX", "GOGC", "\x00TZ="} {
		if strings.Contains(env, secret) {
			t.Errorf("the browser inherited %s", secret)
		}
	}
	entries, err := os.ReadDir(filepath.Join(r.dir, "env"))
	if err != nil || len(entries) != 1 {
		t.Errorf("the host directory contains more than the record of the launch: %v, %v", entries, err)
	}
	if err := b.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.assertNoLeaks(t)
}

func TestIsolation_EveryMajorVersion(t *testing.T) {
	r := newIsolatedFixture(t)
	for _, build := range majorBuilds(t) {
		spec := r.spec("major-" + strconv.Itoa(build.Major))
		spec.Build, spec.Headless = build, !build.Headful
		b := r.launch(t, spec)
		if program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", b.PID())); err != nil || program != build.Path {
			t.Errorf("got executable %s, want %s: a running build could be removed", program, build.Path) // see package install
		}
		var answer struct{ Result struct{ Value int } }
		c := dial(t, b)
		unmarshal(t, c.call(t, c.open(t, "about:blank"), "Runtime.evaluate", map[string]any{"expression": "6*7"}), &answer)
		if answer.Result.Value != 42 {
			t.Errorf("%s: 6*7 is %d", build.Version, answer.Result.Value)
		}
		if err := b.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r.assertNoLeaks(t)
}

func TestIsolation_MemoryLimitEndsBrowser(t *testing.T) {
	for name, without := range map[string]string{"bounded": "", "without the limit": sandbox.MemoryLimit} {
		t.Run(name, func(t *testing.T) {
			r := newFixtureWith(t, func(o *browser.Options) {
				o.Isolation = &sandbox.Options{Disk: 1 << 30, Memory: 500 << 20, Disabled: []string{without}}
			}).withShell(t)
			b := r.launch(t, r.spec("greedy"))
			c := dial(t, b)
			page := c.open(t, "about:blank")
			const hoard = `globalThis.all = []; for (let i = 0; i < 8; i++) all.push(new Uint8Array(100 << 20).fill(1)); all.length`
			reply, err := c.Send(t.Context(), page, "Runtime.evaluate", map[string]any{"expression": hoard})
			if err != nil {
				t.Fatal(err)
			}
			if without != "" {
				if err := reply.Wait(t.Context(), nil); err != nil {
					t.Errorf("without the limit: %v", err)
				}
				return
			}
			select {
			case <-b.Done():
			case <-time.After(20 * time.Second):
				t.Fatal("the browser did not exit")
			}
			if e := b.Exit(); !e.OutOfMemory || e.Killed {
				t.Errorf("exit %+v, want out of memory", e)
			}
		})
	}
}

func TestIsolation_DescribesFailedLaunch(t *testing.T) {
	r := newIsolatedFixture(t)
	for _, c := range []struct{ name, path, want string }{
		{"missing", "/nonexistent/chromium", "no such file"},
		{"exits", script(t, "echo cannot open shared object >&2\nexit 127"), "cannot open shared object"},
		{"exits", script(t, "exit 3"), "exited with code 3"},
		{"no sandbox", script(t, "echo 'FATAL: No usable sandbox!' >&2\nexit 1"), "no usable sandbox"},
		{"next to the worker's files", filepath.Join(filepath.Dir(r.dir), "chromium"), "separate directory"},
	} {
		spec := r.spec("bogus")
		spec.Build.Path = c.path
		_, err := r.Launch(t.Context(), spec)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
		if sandbox := c.name == "no sandbox"; errors.Is(err, browser.ErrNoSandbox) != sandbox {
			t.Errorf("%s: is ErrNoSandbox: %t", c.name, !sandbox)
		}
		r.assertNoLeaks(t)
	}
}

func TestIsolation_EndsAllProcesses(t *testing.T) {
	r := newFixtureWith(t, func(o *browser.Options) { o.Isolation = &sandbox.Options{Disk: 1 << 30, Processes: 200} })
	for name, body := range map[string]string{
		"bomb":   `bomb() { sleep 30 & bomb & bomb; }; bomb`,
		"daemon": `for n in 1 2 3; do setsid sh -c 'sleep 30 & sleep 30' & done; sleep 30`,
	} {
		spec := r.spec(name)
		spec.Build.Path, spec.Timeout = script(t, "exec 2>/dev/null\n"+body), 2*time.Second
		if _, err := r.Launch(t.Context(), spec); err == nil {
			t.Errorf("%s was accepted as a browser", name)
		}
		r.assertNoLeaks(t)
	}
}

// TestIsolation_UnprivilegedWorker runs these tests as an unprivileged user. Its
// browsers run as the same user.
func TestIsolation_UnprivilegedWorker(t *testing.T) {
	if os.Geteuid() != 0 {
		return // the other tests already run unprivileged
	}
	const nobody = 61998
	dir := testenv.PublicTempDir(t)
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	program := testenv.CopyTestBinary(t, dir)
	tests := "^(TestIsolation_(HidesHostFiles|KeepsChromiumSandbox|EnvironmentAndPaths|DescribesFailedLaunch|PagesAreOnline|DebugPort|Timezone|ProxyCannot|MemoryLimit)|TestFreeze_(Calls|Persistent)|TestData_OutlivesBrowser|TestSweep_RemovesUnrecordedDisplay)"
	if !testenv.Full() {
		tests += "/^(isolated|without_anything|bounded)$" // of their subtests
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.run="+tests)
	cmd.Dir, cmd.Env = dir, []string{"PATH=/usr/bin:/bin", "TMPDIR=" + dir, "HOME=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, _ := cmd.CombinedOutput()
	if n := strings.Count(string(out), "\n--- PASS"); n < 5 || strings.Contains(string(out), "--- FAIL") {
		t.Errorf("%d passed:\n%s", n, out)
	}
}
