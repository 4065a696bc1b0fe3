package sandbox

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cgroup is a launch's control group, with one directory in each hierarchy in
// use.
type cgroup struct {
	manager *cgroupManager
	dirs    map[string]string // by hierarchy
	events  *os.File          // OOM events of cgroup v1; nil for none
}

// setLimits sets the memory and process limits.
func (g *cgroup) setLimits(opts Options) error {
	if dir, ok := g.manager.controllerHierarchy[memoryController]; ok && opts.Memory > 0 {
		limit := strconv.FormatInt(opts.Memory, 10)
		if dir == unified {
			if err := writeFile(g.dirs[dir], "memory.max", limit); err != nil {
				return err
			}
			_ = writeFile(g.dirs[dir], "memory.swap.max", "0") // missing where there is no swap
			if err := writeFile(g.dirs[dir], "memory.oom.group", "1"); err != nil {
				return err
			}
		} else {
			if err := writeFile(g.dirs[dir], "memory.limit_in_bytes", limit); err != nil {
				return err
			}
			_ = writeFile(g.dirs[dir], "memory.memsw.limit_in_bytes", limit)
		}
	}
	if dir, ok := g.manager.controllerHierarchy[pidsController]; ok && opts.Processes > 0 {
		return writeFile(g.dirs[dir], "pids.max", strconv.Itoa(opts.Processes))
	}
	return nil
}

// add moves a process into the group. Its existing children stay outside.
func (g *cgroup) add(pid int) error {
	for _, dir := range g.dirs {
		if err := writeFile(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("control group: %w", err)
		}
	}
	return nil
}

// oomKilled reports whether the kernel has killed a process because the group
// reached its memory limit.
func (g *cgroup) oomKilled() bool {
	hierarchy, ok := g.manager.controllerHierarchy[memoryController]
	if !ok {
		return false
	}
	file := "memory.oom_control"
	if hierarchy == unified {
		file = "memory.events"
	}
	return readCounter(filepath.Join(g.dirs[hierarchy], file), "oom_kill") > 0
}

// watchOOM calls onOOM when the kernel kills a process because of the memory
// limit. It is needed only in cgroup v1: in v2 the kernel kills the whole group.
func (g *cgroup) watchOOM(onOOM func()) {
	dir := g.dirs[memoryController]
	if dir == "" || onOOM == nil {
		return
	}
	control, err := os.Open(filepath.Join(dir, "memory.oom_control"))
	if err != nil {
		return
	}
	defer control.Close()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return
	}
	events := os.NewFile(uintptr(fd), "oom-events")
	if err := writeFile(dir, "cgroup.event_control", fmt.Sprintf("%d %d", fd, control.Fd())); err != nil {
		events.Close()
		return
	}
	g.events = events
	go func() {
		for number := make([]byte, 8); ; {
			if _, err := events.Read(number); err != nil {
				return
			}
			if g.awaitOOMKill() {
				onOOM()
				return
			}
		}
	}()
}

// awaitOOMKill waits briefly for an OOM kill: the kernel sends the event before
// it selects a victim.
func (g *cgroup) awaitOOMKill() bool {
	for range 100 {
		if g.oomKilled() {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// kill makes the kernel kill all processes of the group, where the kernel
// supports it.
func (g *cgroup) kill() {
	if dir := g.dirs[unified]; dir != "" && g.manager.canKill {
		_ = writeFile(dir, "cgroup.kill", "1")
	}
}

// awaitEmpty waits until the group has no live processes, after kill, for at most
// removeTimeout. It does not wait where the kernel does not support cgroup.kill.
func (g *cgroup) awaitEmpty() {
	dir := g.dirs[unified]
	if dir == "" || !g.manager.canKill {
		return
	}
	for deadline := time.Now().Add(removeTimeout); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if readCounter(filepath.Join(dir, "cgroup.events"), "populated") == 0 {
			return
		}
	}
}

// remove kills the remaining processes and removes the group.
func (g *cgroup) remove() error {
	if g.events != nil {
		g.events.Close()
	}
	g.kill()
	var errs []error
	for _, dir := range slices.Sorted(maps.Values(g.dirs)) {
		errs = append(errs, removeCgroup(dir))
	}
	return errors.Join(errs...)
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
