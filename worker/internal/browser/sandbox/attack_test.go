package sandbox_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// attack is something that a launch must not be able to do: a script that prints
// "mine" if it succeeds.
type attack struct {
	name   string
	piece  string // prevents the attack, which succeeds without it
	script func(t *testing.T) string
}

// attacks are the attacks that a shell script can perform; limits have their own
// tests.
func attacks() []attack {
	return []attack{
		{"read the worker's files", sandbox.PrivateFiles, func(t *testing.T) string {
			return "cat " + publicFile(t, "mine")
		}},
		{"write the worker's files", sandbox.PrivateFiles, func(t *testing.T) string {
			return "echo x >" + filepath.Dir(publicFile(t, "")) + "/written && echo mine"
		}},
		{"see the worker's directories", sandbox.PrivateFiles, func(t *testing.T) string {
			return "test -d " + filepath.Dir(publicFile(t, "")) + " && echo mine"
		}},
		{"read the host's users", sandbox.PrivateFiles, func(*testing.T) string {
			return "grep -q ^root: /etc/passwd && echo mine"
		}},
		{"list the operator's files in /usr", sandbox.PrivateFiles, func(*testing.T) string {
			return "ls -d /usr/src /usr/local/bin && echo mine"
		}},
		{"see the machine's devices", sandbox.PrivateFiles, func(*testing.T) string {
			return "test -e /dev/tty && echo mine"
		}},
		{"see the worker's process", sandbox.ProcessList, func(*testing.T) string {
			return fmt.Sprintf("tr '\\0' ' ' </proc/%d/cmdline | grep -q . && echo mine", os.Getpid())
		}},
		{"read the kernel command line", sandbox.PIDNamespace, func(*testing.T) string {
			return "grep -q . /proc/cmdline && echo mine"
		}},
		{"see other launches' processes", sandbox.ProcessList, func(t *testing.T) string {
			return fmt.Sprintf("test -d /proc/%d && echo mine", startOtherProcess(t))
		}},
		{"kill another process of its user", sandbox.PIDNamespace, func(t *testing.T) string {
			return fmt.Sprintf("kill -9 %d && echo mine", startOtherProcess(t))
		}},
		{"share memory with other launches", sandbox.PIDNamespace, func(t *testing.T) string {
			return fmt.Sprintf("grep -q '^ *%d ' /proc/sysvipc/shm && echo mine", createSharedMemory(t))
		}},
		{"connect to a server on the host", sandbox.NetworkNamespace, func(t *testing.T) string {
			return fmt.Sprintf("bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d' && echo mine", listenLoopback(t))
		}},
		{"read the host's hosts file", sandbox.NetworkNamespace, func(t *testing.T) string {
			return fmt.Sprintf("test \"$(cat /etc/hosts)\" = '%s' && echo mine", readTrimmed(t, "/etc/hosts"))
		}},
		{"read the host's DNS servers", sandbox.NetworkNamespace, func(t *testing.T) string {
			return fmt.Sprintf("test \"$(cat /etc/resolv.conf)\" = '%s' && echo mine", readTrimmed(t, "/etc/resolv.conf"))
		}},
		{"read the host name", sandbox.PIDNamespace, func(t *testing.T) string {
			name, err := os.Hostname()
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf("test $(hostname) = %s && echo mine", name)
		}},
	}
}

func TestSandbox_PreventsAttacks(t *testing.T) {
	report := open(t, nil).Report()
	for _, a := range attacks() {
		t.Run(a.name, func(t *testing.T) {
			if got := a.succeeds(t, nil); got == report.On(a.piece) { // a host can lack the piece
				t.Errorf("the attack succeeds in a sandbox: %v", got)
			}
			if got := a.succeeds(t, []string{a.piece}); !got {
				t.Errorf("the attack fails without %s", a.piece)
			}
		})
	}
}

// TestSandbox_ReachesNoListedProcess runs a launch where the host does not allow a /proc
// of its own.
func TestSandbox_ReachesNoListedProcess(t *testing.T) {
	h := open(t, func(o *sandbox.Options) { o.Disabled = []string{sandbox.ProcessList} })
	if !h.Report().On(sandbox.PIDNamespace) {
		t.Fatalf("got %+v", h.Report())
	}
	other := exec.CommandContext(t.Context(), "sleep", "60") // of the worker's user; as root, the launch has another user
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	script := fmt.Sprintf(`cd /proc/%d && echo listed; cat environ; ls root/; readlink exe || echo Permission denied; readlink fd/0 || echo Permission denied; cat <mem; kill -9 %[1]d; kill -0 1 && echo own`, other.Process.Pid)
	output := h.run(t, script)
	if !strings.HasPrefix(output, "listed\n") || !strings.HasSuffix(output, "\nown") || strings.Count(output, "\n") < 6 {
		t.Errorf("got %s", output)
	}
	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(line); !strings.Contains(line, "ermission denied") && !strings.Contains(line, "No such process") && !slices.Contains([]string{"listed", "own", ""}, line) {
			t.Errorf("the launch got %q", line)
		}
	}
}

// TestSandbox_NetworkAddressesStayStable looks for IPv6 addresses that the kernel would
// assign after the browser has started.
func TestSandbox_NetworkAddressesStayStable(t *testing.T) {
	addresses := open(t, nil).run(t, "cat /proc/net/if_inet6")
	for line := range strings.Lines(addresses) {
		if name := strings.Fields(line)[5]; name != "lo" {
			t.Errorf("%s has an IPv6 address: %s", name, line)
		}
	}
}

// succeeds reports whether the attack succeeds with some pieces switched off.
func (a attack) succeeds(t *testing.T, without []string) bool {
	t.Helper()
	h := open(t, func(o *sandbox.Options) { o.Disabled = without })
	output := h.run(t, a.script(t))
	return strings.Contains(output, "mine")
}

// listenLoopback listens on this machine's loopback.
func listenLoopback(t *testing.T) (port int) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

// escapeCases are pieces to switch off for a process that detaches from its launch.
var escapeCases = map[string][]string{
	"in a sandbox":            nil,
	"without a PID namespace": {sandbox.PIDNamespace},
	"without cgroup.kill":     {sandbox.CgroupKill},
	"without either":          {sandbox.PIDNamespace, sandbox.CgroupKill},
}

// survives reports whether detached processes survive their launch.
func (h *testManager) survives() bool {
	return !h.Report().On(sandbox.PIDNamespace) && !h.Report().On(sandbox.CgroupKill)
}

// detachScript detaches a process that other tests on this machine do not have.
func detachScript() string {
	return "setsid sleep " + detachedSleep() + " >/dev/null 2>&1 & read wait <&3"
}

// detachedEnv contains the time of another process of these tests.
const detachedEnv = "SANDBOX_TEST_SLEEP"

func detachedSleep() string {
	if given := os.Getenv(detachedEnv); given != "" {
		return given
	}
	return fmt.Sprintf("60.%d", os.Getpid())
}

func TestSandbox_ProcessesEndWithLaunch(t *testing.T) {
	for name, without := range escapeCases {
		t.Run(name, func(t *testing.T) {
			h := open(t, func(o *sandbox.Options) { o.Disabled = without })
			g := h.startScript(t, detachScript())
			testenv.Eventually(t, "a detached process", func() bool { return len(escapedPIDs()) == 1 })
			_ = g.cmd.Process.Kill()
			_, _ = g.cmd.Process.Wait()
			g.Kill()
			if !h.survives() {
				testenv.Eventually(t, "its end", func() bool { return len(escapedPIDs()) == 0 })
			} else if len(escapedPIDs()) == 0 {
				t.Error("the process exited before the sandbox ended")
			}
			g.Close()
			if left := escapedPIDs(); len(left) > 0 {
				t.Errorf("processes outlive the sandbox: %v", left)
			}
		})
	}
}

// TestSandbox_ProcessesEndWithKilledWorker runs the test binary again as the worker.
func TestSandbox_ProcessesEndWithKilledWorker(t *testing.T) {
	const withoutEnv = "WORKER_WITHOUT"
	if pieces, ok := os.LookupEnv(withoutEnv); ok {
		h := open(t, func(o *sandbox.Options) { o.Disabled = strings.Fields(pieces) })
		h.startScript(t, detachScript())
		select {}
	}
	for name, without := range escapeCases {
		t.Run(name, func(t *testing.T) {
			worker := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSandbox_ProcessesEndWithKilledWorker$")
			worker.Env = append(os.Environ(), withoutEnv+"="+strings.Join(without, " "), detachedEnv+"="+detachedSleep())
			if err := worker.Start(); err != nil {
				t.Fatal(err)
			}
			testenv.Eventually(t, "a detached process", func() bool { return len(escapedPIDs()) == 1 })
			_ = worker.Process.Kill()
			_ = worker.Wait()
			if h := open(t, func(o *sandbox.Options) { o.Disabled = without }); !h.survives() {
				testenv.Eventually(t, "its end", func() bool { return len(escapedPIDs()) == 0 })
				return
			}
			left := escapedPIDs()
			if len(left) == 0 {
				t.Error("the process exited before the sandbox ended")
			}
			for _, pid := range left {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		})
	}
}

// escapedPIDs returns the detached processes of a script.
func escapedPIDs() (pids []int) {
	entries, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range entries {
		raw, _ := os.ReadFile(path)
		if strings.HasPrefix(string(raw), "sleep\x00"+detachedSleep()+"\x00") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// publicFile creates a file that every user may read and returns its path.
func publicFile(t *testing.T, text string) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "svc-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// readTrimmed reads a file of the host, without the newline at its end.
func readTrimmed(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimRight(string(raw), "\n")
}

// startOtherProcess starts a process of the user that scripts run as.
func startOtherProcess(t *testing.T) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if uid() >= 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid()), Gid: uint32(uid())}}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// createSharedMemory creates a System V shared memory segment and returns its key.
func createSharedMemory(t *testing.T) int {
	t.Helper()
	key := 0x51000000 | os.Getpid()
	id, _, errno := syscall.Syscall(syscall.SYS_SHMGET, uintptr(key), 4096, 0o1666) // IPC_CREAT
	if errno != 0 {
		t.Fatal(errno)
	}
	t.Cleanup(func() { _, _, _ = syscall.Syscall(syscall.SYS_SHMCTL, id, 0, 0) }) // IPC_RMID
	return key
}

func TestSandbox_HasNoPrivileges(t *testing.T) {
	h := open(t, nil)
	output := h.run(t, "cat /proc/self/status; ls /proc/self/fd; env; umask")
	for _, want := range []string{"CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1"} {
		if !strings.Contains(output, want) {
			t.Errorf("got no %q in:\n%s", want, output)
		}
	}
	if os.Geteuid() == 0 && !strings.Contains(output, fmt.Sprintf("Uid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", uid())) {
		t.Errorf("got another user:\n%s", output)
	}
	if groups := textBetween(output, "Groups:", "\n"); os.Geteuid() == 0 && strings.TrimSpace(groups) != "" {
		t.Errorf("groups %q", groups)
	}
	for _, secret := range []string{"GOGC", "GOMAXPROCS", "HOME="} {
		if strings.Contains(output, secret) {
			t.Errorf("got an unexpected environment: %s", output)
		}
	}
}

func textBetween(s, start, end string) string {
	_, rest, _ := strings.Cut(s, start)
	found, _, _ := strings.Cut(rest, end)
	return found
}

func TestSandbox_SeesOnlyOwnProcesses(t *testing.T) {
	h := open(t, nil)
	output := h.run(t, "echo $$; cd /proc; ls -d [0-9]*")
	for pid := range strings.FieldsSeq(output) {
		if n, _ := strconv.Atoi(pid); n > 20 {
			t.Errorf("the launch sees process %s:\n%s", pid, output)
		}
	}
	if !strings.HasPrefix(output, "1\n") {
		t.Errorf("the script is process %s of its namespace, want 1", strings.Fields(output)[0])
	}
}

func TestExec_FailsForMissingProgram(t *testing.T) {
	h := open(t, nil)
	sb, _ := h.startEmpty(t)
	if err := sb.Setup(t.Context(), sandbox.Config{UID: uid(), Program: "/usr/bin/nothing-there"}); err != nil {
		t.Fatal(err)
	}
	if err := sb.Exec(t.Context(), nil); err == nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that it does not exist", err)
	}
}

func TestSandbox_EndsWithoutWorker(t *testing.T) {
	h := open(t, nil)
	sb, cmd := h.startEmpty(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = cmd.Process.Wait()
	}()
	closed := make(chan struct{})
	go func() { // as if the worker had died
		defer close(closed)
		sb.Close()
	}()
	defer func() { <-closed }()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("the sandbox's process did not end")
	}
}
