package sandbox_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// TestSandbox_ReachesNoOtherLaunch attacks another launch and the worker from a launch, as the
// launches of two organizations on one worker can. SECURITY.md lists the attacks.
func TestSandbox_ReachesNoOtherLaunch(t *testing.T) {
	h := open(t, nil)
	dir := testenv.PublicTempDir(t)
	program := testenv.CopyTestBinary(t, dir)
	worker := holdOutside(t, program)
	other, launch := holdInside(t, h, program)
	targets, err := json.Marshal([]holding{worker, other})
	if err != nil {
		t.Fatal(err)
	}

	outside := exec.CommandContext(t.Context(), program, attackerRole, string(targets))
	outside.Env = []string{secretEnv + "=inherited"}
	output, err := outside.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, name := range []string{
		"arguments", "environment", "descriptors", "root", "memory", "namespaces", "signal", "file", "loopback", "abstract", "display",
		"shared files", "segment", "inherited",
	} {
		if !strings.Contains(string(output), fmt.Sprintf("%d %s\n", worker.PID, name)) {
			t.Errorf("the attack %q fails also outside of a sandbox:\n%s", name, output)
		}
	}

	var want []string
	if !h.Report().On(sandbox.ProcessList) {
		want = []string{fmt.Sprintf("%d arguments", worker.PID), fmt.Sprintf("%d arguments", other.PID)}
	}
	g := h.prepare(t)
	g.execProgram(t, program, attackerRole, string(targets))
	got := strings.FieldsFunc(g.wait(t), func(r rune) bool { return r == '\n' })
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("successful attacks on the worker (%d) and on a launch (%d) are %q, want %q", worker.PID, other.PID, got, want)
	}
	if _, err := launch.Data().Stat("secret"); err != nil {
		t.Errorf("the other launch has ended: %v", err)
	}
}

// execProgram is exec for a role of the test binary.
func (g *script) execProgram(t *testing.T, program, role, argument string) {
	t.Helper()
	err := g.Setup(t.Context(), sandbox.Config{UID: uid(), Program: program, Args: []string{role, argument}, Env: []string{secretOf(role)}, Dir: "/"})
	if err == nil {
		err = g.Exec(t.Context(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// secretOf returns a variable of a role's environment.
func secretOf(role string) string {
	if role == holderRole {
		return secretEnv + "=secret"
	}
	return "PATH=/usr/bin:/bin"
}

// holdInside starts a launch with a holding.
func holdInside(t *testing.T, h *testManager, program string) (holding, *script) {
	t.Helper()
	g := h.prepare(t)
	own := holding{
		PID: g.cmd.Process.Pid, Port: 9222, Abstract: "launch", File: sandbox.DataDir + "/secret", Memory: "/dev/shm/launch-secret",
		Key: 0x52000000 | os.Getpid(),
	}
	argument, err := json.Marshal(own)
	if err != nil {
		t.Fatal(err)
	}
	g.execProgram(t, program, holderRole, string(argument))
	testenv.Eventually(t, "the files of the other launch", func() bool {
		_, err := g.Data().Stat("secret")
		return err == nil
	})
	return own, g
}

// holdOutside starts a process of the worker with a holding.
func holdOutside(t *testing.T, program string) holding {
	t.Helper()
	id := os.Getpid()
	_ = os.Mkdir("/tmp/.X11-unix", 0o777) // exists where a display has run
	own := holding{
		Port: testenv.FreePort(t), Abstract: fmt.Sprintf("worker-%d", id), Display: fmt.Sprintf("/tmp/.X11-unix/X%d", 1_000_000+id),
		File: filepath.Join(testenv.PublicTempDir(t), "secret"), Memory: fmt.Sprintf("/dev/shm/worker-%d", id), Key: 0x53000000 | id,
	}
	argument, err := json.Marshal(own)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, holderRole, string(argument))
	end, endOfHolder, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	cmd.Env, cmd.Stderr, cmd.ExtraFiles = []string{secretOf(holderRole)}, os.Stderr, []*os.File{end}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		endOfHolder.Close()
		_ = cmd.Wait()
	})
	testenv.Eventually(t, "the files of the worker", func() bool { return exists(own.File) })
	own.PID = cmd.Process.Pid
	return own
}
