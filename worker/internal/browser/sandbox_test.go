package browser_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/browser/builds"
)

func TestSandbox_Enabled(t *testing.T) {
	r := newFixture(t)
	b := r.launch(t, r.spec("sandbox"))
	if !b.Sandboxed {
		t.Error("Sandboxed is false")
	}
	c := dial(t, b)
	page := c.open(t, "chrome://sandbox")
	var text string
	eventually(t, 5*time.Second, "the sandbox page", func() bool {
		c.eval(t, page, `document.body ? document.body.innerText : ''`, &text)
		return strings.Contains(text, "adequately sandboxed")
	})
	if !strings.Contains(text, "You are adequately sandboxed.") {
		t.Errorf("chrome://sandbox shows:\n%s", text)
	}
	renderers := 0
	for _, pid := range processTree(b.PID()) {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if !strings.Contains(string(command), "--type=renderer") {
			continue
		}
		renderers++
		if mode := statusField(pid, "Seccomp"); mode != "2" {
			t.Errorf("renderer %d: seccomp mode %s, want 2", pid, mode)
		}
		for _, space := range []string{"user", "pid", "net"} {
			own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, space))
			main, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", b.PID(), space))
			if err == nil && own == main {
				t.Errorf("renderer %d shares the %s namespace of the main process", pid, space)
			}
		}
	}
	if renderers == 0 {
		t.Error("no renderer found")
	}
}

func TestUserID_SeparatesBrowsers(t *testing.T) {
	if os.Geteuid() != 0 {
		return // an unprivileged worker has one user for everything
	}
	r := newFixture(t)
	a, b := r.launch(t, r.spec("a")), r.launch(t, r.spec("b"))
	uid := strings.Fields(statusField(a.PID(), "Uid"))
	if len(uid) != 4 || uid[0] == "0" || uid[0] == strings.Fields(statusField(b.PID(), "Uid"))[0] {
		t.Fatalf("user ids %v", uid)
	}
	if caps := statusField(a.PID(), "CapEff"); strings.Trim(caps, "0") != "" {
		t.Errorf("capabilities %s, want none", caps)
	}
	c := dial(t, a)
	for path, readable := range map[string]bool{
		"/etc/shadow":                        false,
		r.dir + "/b/data/DevToolsActivePort": false,
		r.dir + "/a/launch.json":             false,
		r.dir + "/a/data/DevToolsActivePort": true,
	} {
		page := c.open(t, "about:blank")
		var answer struct{ ErrorText string }
		unmarshal(t, c.call(t, page, "Page.navigate", map[string]any{"url": "file://" + path}), &answer)
		if got := answer.ErrorText == "" || answer.ErrorText == "net::ERR_ABORTED"; got != readable { // aborted: a download
			t.Errorf("%s: %q, want readable %t", path, answer.ErrorText, readable)
		}
	}
}

func TestEnvironment_Minimal(t *testing.T) {
	t.Setenv("SVC_KEY", "secret")
	r := newFixture(t)
	b := r.launch(t, r.spec("env"))
	env := treeEnviron(t, b.PID())
	if strings.Contains(env, "SVC_KEY") {
		t.Error("the browser inherited the worker's key")
	}
	for name, want := range map[string]string{"HOME": r.dir + "/env/home", "TMPDIR": r.dir + "/env/tmp"} {
		_, value, _ := strings.Cut(env, "\x00"+name+"=")
		value, _, _ = strings.Cut(value, "\x00")
		if got, err := filepath.EvalSymlinks(value); err != nil || got != want {
			t.Errorf("%s resolves to %s (%v), want %s", name, got, err, want)
		}
	}
}

// TestSandbox_FewProcesses: the network service is a thread of the browser process, and so is the
// GPU process of a headless browser. There is no zygote without a sandbox. The caller's features
// do not change this.
func TestSandbox_FewProcesses(t *testing.T) {
	r := newFixture(t)
	for name, tc := range map[string]struct {
		build    builds.Build
		headless bool
	}{
		"chromium": {r.build, true}, "headless-shell": {headlessShell(t), true}, "window": {r.build, false},
	} {
		t.Run(name, func(t *testing.T) {
			spec := r.spec("few-" + name)
			spec.Build, spec.Headless = tc.build, tc.headless
			spec.Args = []string{"--enable-features=CallerOn", "--disable-features=CallerOff"}
			b := r.launch(t, spec)
			c := dial(t, b)
			page := c.open(t, "data:text/html,<canvas>")
			c.call(t, page, "Page.captureScreenshot", nil)
			var processes []string
			for _, pid := range processTree(b.PID()) {
				processes = append(processes, commandLine(pid))
			}
			all := strings.Join(processes, "\n")
			for part, want := range map[string]bool{"network.mojom": false, "--no-zygote-sandbox": false, "--type=gpu-process": !tc.headless} {
				if strings.Contains(all, part) != want {
					t.Errorf("%s among the processes: %t, want %t:\n%s", part, !want, want, all)
				}
			}
			for _, part := range []string{"--enable-features=NetworkServiceInProcess2,CallerOn", "SpareRendererForSitePerProcess", ",CallerOff"} {
				if !strings.Contains(commandLine(b.PID()), part) {
					t.Errorf("the browser was not started with %s: %q", part, commandLine(b.PID()))
				}
			}
		})
	}
}
