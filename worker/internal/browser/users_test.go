package browser_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// TestDebugPort_AdmitsListedUsersOnly connects as other users of this host, which
// requires root. TestDebugPort_RefusesOtherUsers also runs without root.
func TestDebugPort_AdmitsListedUsersOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		return
	}
	const listed, unlisted = 62001, 62002
	r := newFixtureWith(t, func(o *browser.Options) {
		o.Isolation = &sandbox.Options{Disk: 1 << 30, Processes: 2000}
		o.DebugUsers = []int{listed}
	}).withShell(t)
	b := r.launch(t, r.spec("users"))
	for uid, answer := range map[uint32]string{0: "200 OK", listed: "200 OK", unlisted: "403 Forbidden", uint32(b.UID()): "403 Forbidden"} {
		const ask = `exec 3<>/dev/tcp/127.0.0.1/$0; printf 'GET /json/version HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n' >&3; cat <&3`
		cmd := exec.CommandContext(t.Context(), "/bin/bash", "-c", ask, fmt.Sprint(b.DebugPort))
		cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		if first, rest, _ := strings.Cut(string(out), "\r\n"); first != "HTTP/1.1 "+answer || strings.Contains(rest, "webSocketDebuggerUrl") != (answer == "200 OK") {
			t.Errorf("user %d: %q (%v), want %s", uid, out, err, answer)
		}
	}
}
