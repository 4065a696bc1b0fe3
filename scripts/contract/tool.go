package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/browser-svc/svc/scripts/children"
)

// toolGrace is the time between the signal to end and the kill of a tool.
const toolGrace = 10 * time.Second

// tool runs a program in the root of the repository and writes its output to
// bin/contract/<log>.log. If it fails, the error contains the end of the log. When
// the context ends, the program and its descendants are stopped.
func (h *testEnvironment) tool(ctx context.Context, log string, environment []string, program string, args ...string) error {
	_, err := h.toolOutput(ctx, log, environment, program, args...)
	return err
}

// toolOutput also returns the standard output of the program.
func (h *testEnvironment) toolOutput(ctx context.Context, log string, environment []string, program string, args ...string) (string, error) {
	name := filepath.Join(h.outputDir, log+".log")
	file, err := os.Create(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	var output bytes.Buffer
	command := exec.CommandContext(ctx, program, args...)
	command.Dir = h.root
	command.Env = append(os.Environ(), environment...)
	command.Stdout, command.Stderr = io.MultiWriter(file, &output), file
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = toolGrace
	if err := command.Start(); err != nil {
		return "", err
	}
	group := command.Process.Pid
	err = command.Wait()
	if left := syscall.Kill(-group, syscall.SIGKILL); left == nil && err == nil {
		err = errors.New("it leaked processes, which were killed")
	}
	if err != nil {
		return output.String(), fmt.Errorf("%s: %w; see %s:\n%s", filepath.Base(program), err, name, children.Tail(name))
	}
	return output.String(), nil
}

// external runs scripts/contract/<path>/run with the environment variables of the
// servers, and returns the text of the last line "summary: ...".
func (h *testEnvironment) external(ctx context.Context, log, path string) (string, error) {
	output, err := h.toolOutput(ctx, log, h.toolEnvironment(), filepath.Join(h.root, "scripts", "contract", path, "run"))
	summary := summaryOf(output)
	if err == nil && summary == "" {
		err = fmt.Errorf("%s/run did not end with a line \"summary: ...\"", path)
	}
	return summary, err
}

// toolEnvironment returns the environment variables for the programs of a stage.
func (h *testEnvironment) toolEnvironment() []string {
	return []string{
		"CLOUD_URL=" + h.seed.CloudURL, "WORKER_URL=" + h.seed.WorkerURL, "SEED=" + h.seedFile(),
		"CONTRACT_EXAMPLES=" + strconv.Itoa(h.randomExamples),
	}
}

func summaryOf(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	summary, ok := strings.CutPrefix(lines[len(lines)-1], "summary: ")
	if !ok {
		return ""
	}
	return strings.TrimSpace(summary)
}
