package sandbox

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// guard is a small process that ends all launches when the worker is gone, kill
// -9 included. The first process of each launch ends with the worker, but what
// it has started only once the kernel has taken its memory down, and without a
// PID namespace not at all.
type guard struct {
	cmd       *exec.Cmd
	alivePipe io.Closer // the guard acts when it is closed
}

// startGuard has what is in the control group and below it ended once this
// process has ended or ends the guard. A later group of the same name is none of
// its business.
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
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, // no Ctrl-C
	}}
	if err := g.cmd.Start(); err != nil {
		hold.Close()
		return nil, fmt.Errorf("guard: %w", err)
	}
	// Before browsers that are busy; only root may.
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, g.cmd.Process.Pid, -20)
	return g, nil
}

func (g *guard) stop() {
	g.alivePipe.Close()
	_ = g.cmd.Wait()
}
