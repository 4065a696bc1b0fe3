package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
)

func TestSummaryOf_LastLine(t *testing.T) {
	for output, want := range map[string]string{
		"a\nsummary: 3 of 3\n":           "3 of 3",
		"summary: early\nmore\n":         "",
		"summary: 1\n\nsummary:  2 \n\n": "2",
		"":                               "",
	} {
		if got := summaryOf(output); got != want {
			t.Errorf("the summary of %q is %q, want %q", output, got, want)
		}
	}
}

func TestTool_ErrorHasOutput(t *testing.T) {
	h := &testEnvironment{root: t.TempDir(), outputDir: t.TempDir()}
	output, err := h.toolOutput(t.Context(), "try", []string{"NAME=Ada"}, "/bin/sh", "-c", `echo "hello $NAME"; echo problem >&2; exit 3`)
	if output != "hello Ada\n" || err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "problem") {
		t.Errorf("output %q, error %v", output, err)
	}
	text, err := os.ReadFile(filepath.Join(h.outputDir, "try.log"))
	if err != nil || !strings.Contains(string(text), "hello Ada\n") || !strings.Contains(string(text), "problem\n") {
		t.Errorf("the log is %q, %v", text, err)
	}
}

func TestTool_FailsOnLeftoverProcesses(t *testing.T) {
	h := &testEnvironment{root: t.TempDir(), outputDir: t.TempDir()}
	output, err := h.toolOutput(t.Context(), "try", nil, "/bin/sh", "-c", `sleep 100 >/dev/null 2>&1 & echo $!`)
	if err == nil || !strings.Contains(err.Error(), "leaked processes") {
		t.Errorf("error %v", err)
	}
	isGone(t, output)
}

func TestTool_EndsProcessGroup(t *testing.T) {
	h := &testEnvironment{root: t.TempDir(), outputDir: t.TempDir()}
	ctx, cancel := context.WithCancel(t.Context())
	began := time.Now()
	pidFile := filepath.Join(h.root, "pid")
	go func() {
		testenv.Eventually(t, "the tool has started a program", func() bool {
			text, err := os.ReadFile(pidFile)
			return err == nil && strings.HasSuffix(string(text), "\n")
		})
		cancel()
	}()
	if err := h.tool(ctx, "try", nil, "/bin/sh", "-c", `sleep 100 & echo $! > pid; wait`); err == nil {
		t.Error("no error")
	}
	if took := time.Since(began); took > 60*time.Second {
		t.Errorf("it took %v", took)
	}
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	isGone(t, string(text))
}

func isGone(t *testing.T, text string) {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the process is gone", func() bool {
		state, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err != nil || strings.Contains(string(state), ") Z ") || syscall.Kill(pid, 0) != nil
	})
}
