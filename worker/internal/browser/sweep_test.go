package browser_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// If helperDir is set, the test binary acts as a worker that launches in that
// directory and waits to be killed.
const (
	helperDir      = "BROWSER_TEST_HELPER_DIR"
	helperIsolated = "BROWSER_TEST_HELPER_SANDBOXED" // with isolation
	helperXvnc     = "BROWSER_TEST_HELPER_XVNC"      // with this X server
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == sandbox.Command {
		os.Exit(sandbox.Main())
	}
	if dir := os.Getenv(helperDir); dir != "" {
		actAsWorker(dir)
	}
	os.Exit(m.Run())
}

func actAsWorker(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
	}
	installed, err := builds.NewFinder(builds.FindOptions{}).Find(context.Background())
	fail(err)
	options := browser.Options{Dir: dir, Xvnc: os.Getenv(helperXvnc)}
	if os.Getenv(helperIsolated) != "" {
		options.Isolation = &sandbox.Options{Disk: 1 << 30, Processes: 2000}
	}
	l, err := browser.NewLauncher(options)
	fail(err)
	for _, headless := range []bool{true, false} {
		_, err := l.Launch(context.Background(), browser.Spec{
			LaunchID: fmt.Sprintf("crash-%t", headless), Build: installed[0], Headless: headless,
		})
		fail(err)
	}
	fmt.Println("ready")
	select {}
}

// waitingProcesses returns a worker's prepared sandbox processes.
func waitingProcesses(worker int) []int {
	return processesWhere(func(pid, _, _ int) bool {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return statusField(pid, "PPid") == strconv.Itoa(worker) && bytes.HasSuffix(command, []byte("\x00"+sandbox.Command+"\x00"))
	})
}

// cgroupsOf returns the control groups of a worker's launches.
func cgroupsOf(dir string) (groups []string) {
	var parents []string
	raw, _ := os.ReadFile(filepath.Join(dir, ".cgroups"))
	_ = json.Unmarshal(raw, &parents)
	for _, parent := range parents {
		found, _ := filepath.Glob(parent + "/*/cgroup.procs")
		groups = append(groups, found...)
	}
	return groups
}

func displaySockets(t *testing.T) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	for _, pattern := range []string{"/tmp/.X11-unix/X*", "/tmp/.X*-lock"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			found[p] = true
		}
	}
	return found
}

func TestSweep_AfterKilledWorker(t *testing.T) {
	t.Run("not isolated", func(t *testing.T) { testKilledWorker(t, nil) })
	t.Run("isolated", func(t *testing.T) { testKilledWorker(t, &sandbox.Options{}) })
}

func testKilledWorker(t *testing.T, how *sandbox.Options) {
	dir := filepath.Join(testenv.PublicTempDir(t), "launches")
	before := displaySockets(t)
	worker := exec.Command(os.Args[0])
	worker.Env = append(os.Environ(), helperDir+"="+dir)
	if how != nil {
		worker.Env = append(worker.Env, helperIsolated+"=1")
	}
	out, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		worker.Process.Kill()
		worker.Wait()
	})
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "ready\n" {
		t.Fatalf("the worker printed %q", line)
	}
	var all []int
	for _, pid := range markedProcesses(dir) {
		all = append(all, processTree(pid)...)
	}
	if how != nil { // and the prepared sandbox
		eventually(t, 5*time.Second, "a prepared sandbox", func() bool { return len(waitingProcesses(worker.Process.Pid)) == 1 })
		all = append(all, waitingProcesses(worker.Process.Pid)...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	groups := cgroupsOf(dir)
	if (len(groups) > 0) != (how != nil) {
		t.Errorf("control groups %v", groups)
	}
	if len(all) < 10 {
		t.Fatalf("only %d processes run", len(all))
	}
	if _, err := browser.NewLauncher(browser.Options{Dir: dir}); err == nil {
		t.Fatal("a second launcher locked the directory of a running worker")
	}
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	eventually(t, 20*time.Second, "no process is left", func() bool {
		for _, pid := range all {
			if _, _, alive, ok := stat(pid); ok && alive {
				return false
			}
		}
		return len(markedProcesses(dir)) == 0
	})
	t.Logf("%d processes gone %v after the worker", len(all), time.Since(start))
	worker.Wait()

	l, err := browser.NewLauncher(browser.Options{Dir: dir, Log: testLog(t), Isolation: how})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, group := range groups {
		if _, err := os.Stat(group); err == nil && !slices.Contains(cgroupsOf(dir), group) {
			t.Errorf("leaked control group: %s", group)
		}
	}
	report, err := l.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := (browser.SweepReport{Directories: 2, Displays: 1}); report != want {
		t.Errorf("swept %+v, want %+v", report, want)
	}
	(&fixture{dir: dir}).assertNoLeaks(t)
	for path := range displaySockets(t) {
		if info, err := os.Stat(path); err == nil && !before[path] && info.ModTime().Before(start) {
			if st, ok := info.Sys().(*syscall.Stat_t); ok && len(processesWhere(func(_, _, uid int) bool { return uid == int(st.Uid) })) == 0 {
				t.Errorf("leaked display: %s", path)
			}
		}
	}
	if again, err := l.Sweep(t.Context()); err != nil || again != (browser.SweepReport{}) {
		t.Errorf("a second sweep: %+v, %v", again, err)
	}
}

// TestSweep_RemovesUnrecordedDisplay kills a worker whose display has a socket but has not
// reported its number.
func TestSweep_RemovesUnrecordedDisplay(t *testing.T) {
	top := testenv.PublicTempDir(t)
	if err := os.Chmod(top, 0o777); err != nil {
		t.Fatal(err)
	}
	report, dir := filepath.Join(top, "socket"), filepath.Join(top, "launches")
	xvnc := script(t, `exec 4>&3 3>/dev/null # the worker waits, but the report goes nowhere
(until made=$(find /tmp/.X11-unix -type s -user "$(id -u)" -newer "$0") && [ "$made" ]; do sleep 0.02; done
echo "$made" >`+report+`) 4>&- &
exec Xvnc "$@"`)
	worker := exec.Command(os.Args[0])
	worker.Env = append(os.Environ(), helperDir+"="+dir, helperXvnc+"="+xvnc)
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	var socket string
	testenv.Eventually(t, "the display's socket", func() bool {
		raw, _ := os.ReadFile(report)
		socket = string(bytes.TrimSuffix(raw, []byte("\n")))
		return len(raw) > len(socket)
	})
	killed := time.Now()
	_ = worker.Process.Kill()
	_ = worker.Wait()
	l, err := browser.NewLauncher(browser.Options{Dir: dir, Log: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if swept, err := l.Sweep(t.Context()); err != nil || swept.Displays != 1 {
		t.Errorf("swept %+v, %v", swept, err)
	}
	number := strings.TrimPrefix(socket, "/tmp/.X11-unix/X")
	for _, path := range []string{socket, "/tmp/.X" + number + "-lock", "/tmp/server-" + number + ".xkm"} {
		// Another display may have taken the number.
		if info, err := os.Lstat(path); err == nil && info.ModTime().Before(killed) {
			t.Errorf("leaked %s", path)
		}
	}
}

func TestSweep_KillsOwnProcessesOnly(t *testing.T) {
	r := newFixture(t)
	start := func(marker string) *exec.Cmd {
		cmd := exec.Command("sleep", "60")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "SVC_LAUNCH=" + marker}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() })
		return cmd
	}
	ours, theirs := start(r.dir+"/gone"), start(r.dir+"-other/gone")
	live := r.launch(t, r.spec("live"))
	report, err := r.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := (browser.SweepReport{Processes: 1}); report != want {
		t.Errorf("swept %+v, want %+v", report, want)
	}
	if err := ours.Wait(); err == nil {
		t.Error("the process of this directory exited before the sweep")
	}
	for _, pid := range []int{theirs.Process.Pid, live.PID()} {
		if _, _, alive, ok := stat(pid); !ok || !alive {
			t.Errorf("the sweep killed process %d of another directory", pid)
		}
	}
	theirs.Process.Kill()
	theirs.Wait()
}
