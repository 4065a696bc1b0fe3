package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cgroup is the control group of a launch.
type cgroup struct {
	manager *cgroupManager
	dir     string // "" where there are no control groups
}

// setLimits sets the memory and process limits.
func (g *cgroup) setLimits(opts Options) error {
	if g.manager.controllers[memoryController] && opts.Memory > 0 {
		if err := writeFile(g.dir, "memory.max", strconv.FormatInt(opts.Memory, 10)); err != nil {
			return err
		}
		_ = writeFile(g.dir, "memory.swap.max", "0") // missing where there is no swap
		if err := writeFile(g.dir, "memory.oom.group", "1"); err != nil {
			return err
		}
	}
	if g.manager.controllers[pidsController] && opts.Processes > 0 {
		return writeFile(g.dir, "pids.max", strconv.Itoa(opts.Processes))
	}
	return nil
}

// add moves a process into the group. Its existing children stay outside.
func (g *cgroup) add(pid int) error {
	if g.dir == "" {
		return nil
	}
	if err := writeFile(g.dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
		return fmt.Errorf("control group: %w", err)
	}
	return nil
}

// oomKilled reports whether the kernel has killed the group because it reached its memory
// limit.
func (g *cgroup) oomKilled() bool {
	return g.manager.controllers[memoryController] && readCounter(filepath.Join(g.dir, "memory.events"), "oom_kill") > 0
}

// kill makes the kernel kill all processes of the group, where the kernel
// supports it.
func (g *cgroup) kill() {
	if g.manager.canKill {
		_ = writeFile(g.dir, "cgroup.kill", "1")
	}
}

// awaitEmpty waits until the group has no live processes, after kill, for at most
// removeTimeout. It does not wait where the kernel does not support cgroup.kill.
func (g *cgroup) awaitEmpty() {
	if !g.manager.canKill {
		return
	}
	for deadline := time.Now().Add(removeTimeout); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if readCounter(filepath.Join(g.dir, "cgroup.events"), "populated") == 0 {
			return
		}
	}
}

// remove kills the remaining processes and removes the group.
func (g *cgroup) remove() error {
	if g.dir == "" {
		return nil
	}
	g.kill()
	return removeCgroup(g.dir)
}

// removeTimeout limits how long the processes of a group may take to exit.
const removeTimeout = 2 * time.Second

// removeCgroup kills a group's processes one by one and removes the group.
func removeCgroup(dir string) error {
	for deadline := time.Now().Add(removeTimeout); ; time.Sleep(time.Millisecond) {
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("remove %s: %w", dir, err)
		}
		for _, word := range readFields(filepath.Join(dir, "cgroup.procs")) {
			if pid, err := strconv.Atoi(word); err == nil && pid > 1 && pid != os.Getpid() {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}
