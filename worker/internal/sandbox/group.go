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

// group is a launch's control group, in each hierarchy that is of use.
type group struct {
	of     *groups
	dirs   map[string]string // by hierarchy
	events *os.File          // of the first version: want of memory; nil for none
}

// bound sets what the group may take.
func (g *group) bound(opts Options) error {
	if dir, ok := g.of.home[memoryController]; ok && opts.Memory > 0 {
		limit := strconv.FormatInt(opts.Memory, 10)
		if dir == unified {
			if err := write(g.dirs[dir], "memory.max", limit); err != nil {
				return err
			}
			_ = write(g.dirs[dir], "memory.swap.max", "0") // missing where there is no swap
			if err := write(g.dirs[dir], "memory.oom.group", "1"); err != nil {
				return err
			}
		} else {
			if err := write(g.dirs[dir], "memory.limit_in_bytes", limit); err != nil {
				return err
			}
			_ = write(g.dirs[dir], "memory.memsw.limit_in_bytes", limit)
		}
	}
	if dir, ok := g.of.home[pidsController]; ok && opts.Processes > 0 {
		return write(g.dirs[dir], "pids.max", strconv.Itoa(opts.Processes))
	}
	return nil
}

// add puts a process into the group; children that it has stay outside.
func (g *group) add(pid int) error {
	for _, dir := range g.dirs {
		if err := write(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("control group: %w", err)
		}
	}
	return nil
}

// starved reports whether the kernel has ended a process for the group's want
// of memory.
func (g *group) starved() bool {
	hierarchy, ok := g.of.home[memoryController]
	if !ok {
		return false
	}
	file := "memory.oom_control"
	if hierarchy == unified {
		file = "memory.events"
	}
	return counter(filepath.Join(g.dirs[hierarchy], file), "oom_kill") > 0
}

// watch has tell called when the kernel ends a process for want of memory. In
// the unified hierarchy that isn't needed: the whole group is ended.
func (g *group) watch(tell func()) {
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
	if err := write(dir, "cgroup.event_control", fmt.Sprintf("%d %d", fd, control.Fd())); err != nil {
		events.Close()
		return
	}
	g.events = events
	go func() {
		for number := make([]byte, 8); ; {
			if _, err := events.Read(number); err != nil {
				return
			}
			if g.awaitStarved() {
				tell()
				return
			}
		}
	}()
}

// awaitStarved waits for the kernel's choice of a victim, which it makes after
// it has told of the want, if it still has to.
func (g *group) awaitStarved() bool {
	for range 100 {
		if g.starved() {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// kill has the kernel end the group's processes, where it can.
func (g *group) kill() {
	if dir := g.dirs[unified]; dir != "" && g.of.kills {
		_ = write(dir, "cgroup.kill", "1")
	}
}

// remove ends what is left in the group, and takes it away.
func (g *group) remove() error {
	if g.events != nil {
		g.events.Close()
	}
	g.kill()
	var errs []error
	for _, dir := range slices.Sorted(maps.Values(g.dirs)) {
		errs = append(errs, removeGroup(dir))
	}
	return errors.Join(errs...)
}

// removeTime bounds how long the processes of a group may take to end.
const removeTime = 2 * time.Second

// removeGroup ends a group's processes one by one and removes it.
func removeGroup(dir string) error {
	for deadline := time.Now().Add(removeTime); ; time.Sleep(time.Millisecond) {
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("remove %s: %w", dir, err)
		}
		for _, word := range words(filepath.Join(dir, "cgroup.procs")) {
			if pid, err := strconv.Atoi(word); err == nil && pid > 1 && pid != os.Getpid() {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}
