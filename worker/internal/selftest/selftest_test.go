package selftest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/selftest"
)

// sabotage is the variable with the faults that a worker of these tests has.
const sabotage = "SELFTEST_SABOTAGE"

// TestMain also runs the worker, if the test binary is started with a command.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		if os.Args[1] == "serve" {
			sabotageWorker(os.Getenv(sabotage))
		}
		os.Exit(app.Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

const (
	leftLock = "/tmp/.X60987-lock"
	leftDir  = "left-behind"
)

// sabotageWorker makes this worker leak resources.
func sabotageWorker(what string) {
	if strings.Contains(what, "process") {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		must(err)
		file, err := listener.(*net.TCPListener).File()
		must(err)
		sleeper := exec.Command("sleep", "600")
		sleeper.ExtraFiles, sleeper.SysProcAttr = []*os.File{file}, &syscall.SysProcAttr{Setsid: true}
		must(sleeper.Start())
	}
	if strings.Contains(what, "dead") {
		_, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
		must(err)
	}
	if strings.Contains(what, "descriptor") {
		go func() {
			for range 2000 {
				_, err := syscall.Open("/dev/null", syscall.O_RDONLY, 0)
				must(err)
				time.Sleep(50 * time.Millisecond)
			}
		}()
	}
	if strings.Contains(what, "display") {
		must(os.WriteFile(leftLock, nil, 0o600))
	}
	if leaveDirectory, dropEnds := strings.Contains(what, "directory"), strings.Contains(what, "slot"); leaveDirectory || dropEnds {
		interceptCloud(leaveDirectory, dropEnds)
	}
}

// interceptCloud changes what the worker and the cloud exchange. leaveDirectory leaves
// a launch directory before the cloud authorizes a launch: the worker has then removed
// the leftovers of an earlier worker and does not remove this one. dropEnds drops end
// reports and heartbeats.
func interceptCloud(leaveDirectory, dropEnds bool) {
	cloud, err := url.Parse(os.Getenv("SVC_CLOUD_URL"))
	must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	through := httputil.NewSingleHostReverseProxy(cloud)
	go func() {
		_ = http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if leaveDirectory && strings.HasSuffix(r.URL.Path, "/authorize") {
				must(os.MkdirAll(filepath.Join(os.Getenv("DATA_DIR"), "launches", leftDir), 0o755))
			}
			if dropEnds && (r.Method == http.MethodDelete || strings.HasSuffix(r.URL.Path, "/heartbeat")) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, `{"success":false,"error":{"code":"RESOURCE_NOT_FOUND","message":"Who?"}}`)
				return
			}
			through.ServeHTTP(w, r)
		}))
	}()
	must(os.Setenv("SVC_CLOUD_URL", "http://"+listener.Addr().String()))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func run(t *testing.T, change func(o *selftest.Options)) *selftest.Report {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := selftest.Options{
		Program: []string{executable, "serve"}, Environ: os.Environ(), BrowsersDirs: t.TempDir(), Rounds: 1, Concurrency: 2,
	}
	change(&o)
	report, err := selftest.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := report.Write(&text); err != nil {
		t.Fatal(err)
	}
	t.Log(text.String())
	return report
}

func TestRun_PassesForCleanWorker(t *testing.T) {
	var progress bytes.Buffer
	report := run(t, func(o *selftest.Options) {
		o.Progress = &progress
		o.Scenarios = []string{
			"end by DELETE", "socket closed", "socket cut off mid-frame", "Chromium killed", "display killed", "through a proxy",
			"refused: no slot is free", "refused: the cloud is unreachable", "refused: the cloud rejects the start",
		}
	})
	for _, check := range report.Checks {
		for _, problem := range check.Problems {
			t.Errorf("%s: %s", check.Name, problem)
		}
	}
	if !report.OK() || !report.Passed {
		t.Error("the self-test failed for a clean worker")
	}
	if len(report.Skipped) > 0 {
		t.Errorf("skipped: %v", report.Skipped)
	}
	done := map[string]int{}
	for _, d := range report.Done {
		name, _, _ := strings.Cut(d.Name, ", head")
		done[name] += d.Count
	}
	for _, name := range []string{"display killed", "worker killed", "worker stopped by SIGTERM"} {
		if done[name] == 0 {
			t.Errorf("%s: not counted in %v", name, done)
		}
	}
	if len(report.Phases) < 10 || report.Phases[0].P95 < report.Phases[0].P50 || report.Phases[0].P50 <= 0 {
		t.Errorf("phases %+v", report.Phases)
	}
}

func TestRun_FindsLeaks(t *testing.T) {
	t.Cleanup(func() {
		_ = os.Remove(leftLock)
		killChildren()
	})
	report := run(t, func(o *selftest.Options) {
		o.Environ = append(o.Environ, sabotage+"=process dead directory descriptor display slot", "WARM_POOL=0")
		o.Scenarios, o.Rounds, o.Duration = []string{"end by DELETE"}, 0, 6*time.Second
		o.CleanupTimeout = 2 * time.Second
	})
	for name, want := range map[string]string{
		"idle: no zombie process":                                 "zombie",
		"idle: no more descriptors than after the first browsers": "/dev/null",
		"idle: no launch directory":                               leftDir,
		"idle: no slot is in use":                                 "running",
		"kill -9 of the worker: no process survives":              "sleep",
		"after stop: no process":                                  "sleep",
		"after stop: no listening port":                           "",
		"after stop: no display, lock or link in /tmp":            leftLock,
		"after stop: no launch directory":                         leftDir,
		"each session was reported once, with its end reason":     "reported 0 times",
	} {
		if found := problems(report, name); len(found) == 0 || !strings.Contains(strings.Join(found, "\n"), want) {
			t.Errorf("%s: found %q, want %q", name, found, want)
		}
	}
	for _, name := range []string{"after stop: no mount", "after stop: no control group", "SIGTERM stops the worker cleanly"} {
		if found := problems(report, name); len(found) > 0 {
			t.Errorf("%s: %q", name, found)
		}
	}
	if report.Passed || report.OK() {
		t.Error("the self-test passed for a leaking worker")
	}
	if log, err := os.ReadFile(report.Log); err != nil || !bytes.Contains(log, []byte("worker ready")) {
		t.Errorf("the worker's log was not kept: %v", err)
	}
	_ = os.Remove(report.Log)
}

func problems(report *selftest.Report, name string) []string {
	for _, c := range report.Checks {
		if c.Name == name {
			return c.Problems
		}
	}
	return nil
}

// killChildren kills the leaked processes, which are now children of this process.
func killChildren() {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	for child := range strings.FieldsSeq(string(text)) {
		var pid int
		if _, err := fmt.Sscan(child, &pid); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			_, _ = syscall.Wait4(pid, nil, 0, nil)
		}
	}
}

func TestRun_FailsWithoutBrowser(t *testing.T) {
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, err = selftest.Run(t.Context(), selftest.Options{
		Program: []string{executable, "serve"}, Environ: os.Environ(), BrowsersDirs: t.TempDir(), Version: 1,
	})
	if err == nil || !strings.Contains(err.Error(), "browser version 1 is not installed") {
		t.Errorf("got error %v", err)
	}
}

func TestReport_WritesTextAndJSON(t *testing.T) {
	report := selftest.Report{
		Seed: 7, Phases: []selftest.Phase{{Name: "launch answered", Count: 3, P50: 1.25, P95: 20}}, Skipped: []string{"display killed"},
		Checks: []selftest.Check{{Name: "no process", Problems: []string{}}, {Name: "no port", Problems: []string{"40111"}}},
	}
	var text bytes.Buffer
	if err := report.Write(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"seed 7", "3     1.2    20.0  launch answered", "display killed", "ok    no process\n", "FAIL  no port\n        40111\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &text)
		}
	}
	raw, err := json.Marshal(report)
	if err != nil || !strings.Contains(string(raw), `"checks":[{"name":"no process","problems":[]},{"name":"no port","problems":["40111"]}]`) {
		t.Errorf("%s, %v", raw, err)
	}
	if report.OK() {
		t.Error("OK is true for a report with a problem")
	}
	if (&selftest.Report{}).OK() {
		t.Error("OK is true for an empty report")
	}
}
