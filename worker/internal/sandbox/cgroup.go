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

// cgroup is a launch's control group, in each hierarchy that is of use.
type cgroup struct {
	manager *cgroupManager
	dirs    map[string]string // by hierarchy
	events  *os.File          // manager the first version: want of memory; nil for none
}

// setLimits sets what the group may take.
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

// add puts a process into the group; children that it has stay outside.
func (g *cgroup) add(pid int) error {
	for _, dir := range g.dirs {
		if err := writeFile(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("control group: %w", err)
		}
	}
	return nil
}

// oomKilled reports whether the kernel has ended a process for the group's want
// of memory.
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

// watchOOM has tell called when the kernel ends a process for want of memory. In
// the unified hierarchy that isn't needed: the whole group is ended.
func (g *cgroup) watchOOM(tell func()) {
	dir := g.dirs[memoryController]
	if dir == "" || tell == nil {
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
	events := os.NewFile(uintptr(fd), "want of memory")
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
				tell()
				return
			}
		}
	}()
}

// awaitOOMKill waits for the kernel's choice of a victim, which it makes after
// it has told of the want, if it still has to.
func (g *cgroup) awaitOOMKill() bool {
	for range 100 {
		if g.oomKilled() {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// kill has the kernel end the group's processes, where it can.
func (g *cgroup) kill() {
	if dir := g.dirs[unified]; dir != "" && g.manager.canKill {
		_ = writeFile(dir, "cgroup.kill", "1")
	}
}

// remove ends what is left in the group, and takes it away.
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

// removeTimeout bounds how long the processes of a group may take to end.
const removeTimeout = 2 * time.Second

// removeCgroup ends a group's processes one by one and removes it.
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
