package selftest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/selftest"
)

// TestMain runs svc-worker if the test binary is started with a command.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		os.Exit(app.Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// run runs svc-worker selftest with these arguments.
func run(t *testing.T, arguments ...string) (report selftest.Report, text string, err error) {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), executable, append([]string{"selftest"}, arguments...)...)
	cmd.Env = append(os.Environ(), "DATA_DIR="+t.TempDir())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if stdout.Len() > 0 && stdout.Bytes()[0] == '{' {
		if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
			t.Fatalf("%v: %s", err, &stdout)
		}
	}
	t.Logf("%s\n%s", &stdout, &stderr)
	return report, stdout.String() + stderr.String(), err
}

func TestRun_DrivesEachEngine(t *testing.T) {
	report, _, err := run(t, "--json")
	if err != nil || !report.Passed {
		t.Fatalf("the self-test failed: %v", err)
	}
	var launched []string
	for _, l := range report.Launches {
		launched = append(launched, l.String())
		if l.LaunchMs == 0 || l.PageMs == 0 {
			t.Errorf("durations of %+v", l)
		}
	}
	all := strings.Join(launched, "\n")
	for _, want := range []string{"chromium ", "headless-shell ", ", headful", ", headless"} {
		if !strings.Contains(all, want) {
			t.Errorf("launched %q without %q", launched, want)
		}
	}
	if len(launched) != 3 || len(report.Isolation) == 0 || report.MissingScripts == nil {
		t.Errorf("report %+v", report)
	}
}

const leakedLock = "/tmp/.X60987-lock"

func TestRun_FindsLeaks(t *testing.T) {
	config := app.Config{Port: 3000, CloudURL: "http://localhost:8080", DataDir: t.TempDir()}
	report, err := selftest.Run(t.Context(), selftest.Options{Engine: builds.HeadlessShell, CleanupTimeout: time.Second,
		Open: func(ctx context.Context, e selftest.Environment) (*selftest.Worker, error) {
			w, err := config.OpenForSelftest(ctx, e, slog.New(slog.DiscardHandler))
			if err != nil {
				return nil, err
			}
			stop := w.Close
			w.Close = func(ctx context.Context) error {
				return errors.Join(stop(ctx), leak(t, filepath.Join(e.DataDir, "launches")))
			}
			return w, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if report.Passed || len(report.Launches) != 1 {
		t.Errorf("the self-test passed with leaks: %+v", report)
	}
	found := map[string]string{}
	for _, check := range report.Checks {
		found[check.Name] = strings.Join(check.Problems, "\n")
	}
	for name, want := range map[string]string{
		"process": "sleep", "descriptor of this process": "socket", "display, lock or link in /tmp": leakedLock, "launch directory": "leaked",
	} {
		if got := found["after stop: no "+name]; !strings.Contains(got, want) {
			t.Errorf("%s: found %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"after stop: no mount", "after stop: no control group", "each session is reported once, with its end"} {
		if problems, ok := found[name]; !ok || problems != "" {
			t.Errorf("%s: %q", name, problems)
		}
	}
}

// leak leaks resources of each kind until the test ends.
func leak(t *testing.T, launches string) error {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	sleeper := exec.Command("sleep", "600")
	sleeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := sleeper.Start(); err != nil {
		return err
	}
	t.Cleanup(func() {
		_ = listener.Close()
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait()
		_ = os.Remove(leakedLock)
	})
	return errors.Join(os.Mkdir(filepath.Join(launches, "leaked"), 0o755), os.WriteFile(leakedLock, nil, 0o600))
}

func TestRun_FailsWithoutBrowser(t *testing.T) {
	if _, text, err := run(t, "--browser", "1"); err == nil || !strings.Contains(text, "no such browser is installed") {
		t.Errorf("%v: %s", err, text)
	}
}

func TestReport_WritesText(t *testing.T) {
	report := selftest.Report{
		User: "root", Launches: []selftest.Launch{{Browser: "150.0.1.2", Engine: "chromium", LaunchMs: 431, PageMs: 90, EndMs: 5}},
		Isolation:      []selftest.Isolation{{Name: "pidNamespace", Enabled: true}, {Name: "memoryLimit", Reason: "read-only"}},
		MissingScripts: &[]string{"thai"},
		Checks:         []selftest.Check{{Name: "no process"}, {Name: "no port", Problems: []string{"40111"}}},
	}
	var text bytes.Buffer
	if err := report.Write(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Launches as root", "431       90       5  chromium 150.0.1.2, headful", "pidNamespace      on\n", "memoryLimit       OFF: read-only\n",
		"Fonts: none for [thai]", "ok    no process\n", "FAIL  no port\n        40111\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &text)
		}
	}
	if report.Failed() != 1 {
		t.Errorf("%d checks failed, want 1", report.Failed())
	}
}
