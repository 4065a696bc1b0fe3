package sandbox_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// TestUnprivilegedWorker_UsesUserNamespaces runs the tests that need no
// control groups as an unprivileged user.
func TestUnprivilegedWorker_UsesUserNamespaces(t *testing.T) {
	if os.Geteuid() != 0 {
		return // all tests already run unprivileged
	}
	out := asNobody(t, "-test.v", "-test.run=^(TestSandbox_(PreventsAttacks|HasNoPrivileges|HidesWorkerKeyring|ClearsUserKeyrings|SeesOnlyOwnProcesses|ReachesNoListedProcess|ReachesNoOtherLaunch)|Test(Memory|Process)Limit|TestMemoryPressure|TestSetFrozen|TestDiskLimit|TestSetTimezone|TestData|TestExec|TestSetup_RefusesProgram|TestReport|TestOpen_KeepsOther)")
	if n := strings.Count(out, "\n--- PASS"); n < 7 || strings.Contains(out, "--- FAIL") {
		t.Errorf("%d passed:\n%s", n, out)
	}
}

// asNobody runs this test binary as an unprivileged user.
func asNobody(t *testing.T, args ...string) string {
	t.Helper()
	const nobody = 61998
	dir := testenv.PublicTempDir(t)
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	program := testenv.CopyTestBinary(t, dir)
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Env = dir, []string{"PATH=/usr/bin:/bin", "TMPDIR=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, _ := cmd.CombinedOutput()
	return string(out)
}

func TestReport_ListsPiecesWithReasons(t *testing.T) {
	report := open(t, nil).Report()
	var names []string
	for _, p := range report.Pieces {
		names = append(names, p.Name)
		if !p.On && p.Reason == "" {
			t.Errorf("%s is off without a reason", p.Name)
		}
		if isHostRoot() && !p.On {
			t.Errorf("%s is off: %s", p.Name, p.Reason)
		}
	}
	if got, want := strings.Join(names, " "), strings.Join(sandbox.Pieces(), " "); got != want {
		t.Errorf("got pieces %s, want %s", got, want)
	}
	if root := os.Geteuid() == 0; report.On(sandbox.UserID) != root || !report.On(sandbox.PrivateFiles) || !report.On(sandbox.PIDNamespace) {
		t.Errorf("root %t: got %+v", root, report)
	}
}

func TestOpen_KeepsOtherPiecesWhenOneIsDisabled(t *testing.T) {
	together := []string{sandbox.PIDNamespace, sandbox.NetworkNamespace, sandbox.MountNamespace, sandbox.PrivateFiles}
	dependent := []string{sandbox.ProcessList}
	all := open(t, func(o *sandbox.Options) { o.Memory = 1 << 40 }).Report()
	if slices.ContainsFunc(all.Pieces, func(p sandbox.Piece) bool { return strings.HasSuffix(p.Reason, "watched by the worker") }) {
		dependent = append(dependent, sandbox.MemoryLimit)
	}
	if os.Geteuid() != 0 { // a limit of the user namespace
		dependent = append(dependent, sandbox.ProcessLimit)
	}
	for _, piece := range append([]string{sandbox.ProcessList, sandbox.MemoryLimit, sandbox.ProcessLimit, sandbox.CgroupKill}, together...) {
		h := open(t, func(o *sandbox.Options) { o.Disabled = []string{piece} })
		want := len(all.Missing())
		if all.On(piece) {
			want++
		}
		if slices.Contains(together, piece) {
			want += len(together) - 1 + len(dependent)
		}
		if report := h.Report(); report.On(piece) || len(report.Missing()) != want {
			t.Errorf("without %s: %+v", piece, report)
		}
		if output := h.run(t, "echo runs"); output != "runs" {
			t.Errorf("without %s: got output %q", piece, output)
		}
	}
}
