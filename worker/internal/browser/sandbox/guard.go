package sandbox

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// guard is a small process that kills all launches when the worker ends, even by
// kill -9. The first process of each launch ends with the worker, but without
// the guard its children end later, or not at all without a PID namespace.
type guard struct {
	cmd       *exec.Cmd
	alivePipe io.Closer // closing it triggers the kill
}

// startGuard starts a process that kills the control group, with the groups
// below it, once this process ends or stops the guard. It holds the group's file
// open, so it never affects a later group of the same name.
func startGuard(dir string) (*guard, error) {
	kill, err := os.OpenFile(filepath.Join(dir, "cgroup.kill"), os.O_WRONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	defer kill.Close()
	alive, hold, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	defer alive.Close()
	g := &guard{alivePipe: hold, cmd: &exec.Cmd{
		Path: "/bin/sh", Args: []string{"svc-worker-guard", "-c", "read -r _; echo 1"}, Env: []string{}, Dir: "/",
		Stdin: alive, Stdout: kill,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, // ignores Ctrl-C
	}}
	if err := g.cmd.Start(); err != nil {
		hold.Close()
		return nil, fmt.Errorf("guard: %w", err)
	}
	// Scheduled before busy browsers; needs root.
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, g.cmd.Process.Pid, -20)
	return g, nil
}

func (g *guard) stop() {
	g.alivePipe.Close()
	_ = g.cmd.Wait()
}
