package sandbox_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/sandbox"
)

// TestOpen_DisablesOnlyDeniedPieces runs sandboxes on hosts that deny some
// features, as containers do.
func TestOpen_DisablesOnlyDeniedPieces(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("skipped: needs root")
		return
	}
	const nobody = "setpriv --reuid 61998 --regid 61998 --clear-groups "
	for name, tc := range map[string]struct {
		host string // shell script that execs the worker, "$0"
		off  []string
	}{
		"nothing":                    {`exec "$0" "$@"`, nil},
		"root without CAP_SYS_ADMIN": {`exec setpriv --bounding-set=-sys_admin --inh-caps=-all "$0" "$@"`, nil},
		"a masked /proc": {
			`mount -t tmpfs none /proc/sys && exec ` + nobody + `"$0" "$@"`,
			[]string{sandbox.UserID, sandbox.ProcessList, sandbox.CgroupKill},
		},
		"no user namespaces for an unprivileged worker": {
			`mkdir root && mount --rbind / root && exec chroot root ` + nobody + `"$0" "$@"`, // the kernel denies user namespaces in a chroot
			[]string{sandbox.UserID, sandbox.PIDNamespace, sandbox.ProcessList, sandbox.NetworkNamespace, sandbox.MountNamespace, sandbox.PrivateFiles, sandbox.ChromiumSandbox, sandbox.ProcessLimit, sandbox.MemoryLimit, sandbox.CgroupKill},
		},
		"control groups": {hideControlGroups, []string{sandbox.ProcessLimit, sandbox.CgroupKill}},
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
			slices.Sort(tc.off)
			if slices.Sort(off); !slices.Equal(off, tc.off) {
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
	for _, p := range h.Report().Missing() {
		t.Logf("off %s: %s", p.Name, p.Reason)
	}
	t.Logf("output %s", h.run(t, "echo runs"))
}
