package sandbox_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// TestOpen_DisablesOnlyDeniedPieces runs sandboxes on hosts that deny some
// features, as containers do.
func TestOpen_DisablesOnlyDeniedPieces(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("skipped: needs root")
		return
	}
	const nobody = "setpriv --reuid 61998 --regid 61998 --clear-groups "
	everything := sandbox.Pieces()
	exhausted := func(limit string) string { // of a user namespace
		return "exec " + nobody + "unshare --user --map-current-user --keep-caps sh -c 'echo 0 >/proc/sys/user/" + limit +
			` && exec setpriv --ambient-caps=-all --inh-caps=-all "$0" "$@"' "$0" "$@"`
	}
	for name, tc := range map[string]struct {
		host   string // shell script that execs the worker, "$0"
		starts int    // processes that tell the worker what the host allows
		off    []string
		reason string // a pattern of a piece and the reason why it is off
	}{
		"nothing":                    {host: `exec "$0" "$@"`, starts: 1},
		"root without CAP_SYS_ADMIN": {host: `exec setpriv --bounding-set=-sys_admin --inh-caps=-all "$0" "$@"`, starts: 1},
		"a masked /proc": {
			`mount -t tmpfs none /proc/sys && exec ` + nobody + `"$0" "$@"`, 1,
			[]string{sandbox.UserID, sandbox.ProcessList, sandbox.CgroupKill}, "processList: mount /proc: .*systempaths=unconfined",
		},
		"no user namespaces, because of a chroot": {
			`mkdir root && mount --rbind / root && exec chroot root ` + nobody + `"$0" "$@"`, 2, everything,
			"sandbox: browsers cannot create user namespaces: operation not permitted",
		},
		"no user namespaces, because of a setting": {
			exhausted("max_user_namespaces"), 2, everything, "sandbox: .*: user.max_user_namespaces is 0: set it to 10000 or more on the host",
		},
		"no mount namespaces": {
			exhausted("max_mnt_namespaces"), 2,
			slices.DeleteFunc(slices.Clone(everything), func(name string) bool { return name == sandbox.ChromiumSandbox }), "processList: .*no space left on device",
		},
		"control groups": {hideControlGroups, 1, []string{sandbox.CgroupKill}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			out := runOnHost(t, tc.host, "TestHelperRestrictedHost")
			if !strings.Contains(out, "output runs") {
				t.Fatal(out)
			}
			var off []string
			for _, name := range sandbox.Pieces() {
				if strings.Contains(out, "off "+name+": ") {
					off = append(off, name)
				}
			}
			if tc.reason != "" && !regexp.MustCompile("off "+tc.reason).MatchString(out) {
				t.Errorf("no reason is %q", tc.reason)
			}
			if !strings.Contains(out, fmt.Sprintf("starts %d\n", tc.starts)) {
				t.Errorf("the worker did not start %d processes", tc.starts)
			}
			if !slices.Equal(off, tc.off) {
				t.Errorf("disabled pieces are %v, want %v:\n%s", off, tc.off, out)
			}
			t.Logf("%s", out)
		})
	}
}

// hideControlGroups is a host of runOnHost.
const hideControlGroups = `mount -t tmpfs none /sys/fs/cgroup && exec "$0" "$@"`

// runOnHost runs one test of this package in a separate mount namespace. host is a
// shell script that execs "$0" with its arguments.
func runOnHost(t *testing.T, host, test string) (output string) {
	t.Helper()
	dir := testenv.PublicTempDir(t)
	program := testenv.CopyTestBinary(t, dir)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", host, program, "-test.v", "-test.run=^"+test+"$")
	cmd.Dir, cmd.Env = dir, []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "TMPDIR=" + dir, hostTestEnv + "=" + test}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// hostTestEnv names the test that runOnHost runs.
const hostTestEnv = "SANDBOX_TEST_HOST"

func TestHelperRestrictedHost(t *testing.T) {
	if os.Getenv(hostTestEnv) != t.Name() {
		return // runs only as part of the test above
	}
	h := open(t, nil)
	t.Logf("starts %d", h.starts)
	for _, p := range h.Report().Missing() {
		t.Logf("off %s: %s", p.Name, p.Reason)
	}
	t.Logf("output %s", h.run(t, "echo runs"))
}
