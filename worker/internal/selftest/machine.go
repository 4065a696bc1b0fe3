package selftest

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// machine finds resources that launches leak on this machine, compared with the state
// before.
type machine struct {
	dir         string // directory of the run
	processes   []process
	displays    map[string]os.FileInfo
	descriptors []string
	cgroups     map[string]bool // of processes of this run, except those of this process
}

// observeMachine records the machine's state.
func observeMachine(dir string) *machine {
	return &machine{dir: dir, processes: descendants(os.Getpid()), displays: displayFiles(), descriptors: descriptors(), cgroups: map[string]bool{}}
}

// process is a process in /proc.
type process struct {
	pid, parent int
	zombie      bool
	command     string // its arguments, separated by spaces
}

// String describes the process briefly.
func (p process) String() string {
	if p.zombie {
		return fmt.Sprintf("%d (zombie)", p.pid)
	}
	return fmt.Sprintf("%d %.100s", p.pid, p.command)
}

// descendants returns all descendants of pid, zombies included.
func descendants(pid int) []process {
	children := map[int][]process{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		p := process{}
		p.pid, _ = strconv.Atoi(filepath.Base(dir))
		fields := sandbox.StatFields(p.pid)
		if len(fields) < 2 {
			continue
		}
		p.zombie = fields[0] == "Z"
		p.parent, _ = strconv.Atoi(fields[1])
		command, _ := os.ReadFile(dir + "/cmdline")
		p.command = string(bytes.ReplaceAll(command, []byte{0}, []byte{' '}))
		children[p.parent] = append(children[p.parent], p)
	}
	var found []process
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		for _, p := range children[next[0]] {
			found, next = append(found, p), append(next, p.pid)
		}
	}
	return found
}

// leftoverProcesses returns the processes of this run that still exist. It reaps orphans, so the
// worker must have stopped.
func (m *machine) leftoverProcesses() []string {
	var found []string
	for _, p := range descendants(os.Getpid()) {
		if slices.ContainsFunc(m.processes, func(before process) bool { return before.pid == p.pid }) {
			continue
		}
		if p.zombie && p.parent == os.Getpid() {
			_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
		}
		found = append(found, p.String())
	}
	return found
}

// descriptors lists the open descriptors of this process by kind. Pipes that the Go runtime
// caches for splice are closed first.
func descriptors() []string {
	runtime.GC()
	runtime.GC() // the first only removes them from the cache
	links, _ := filepath.Glob("/proc/self/fd/*")
	var found []string
	for _, link := range links {
		target, err := os.Readlink(link)
		if err == nil && target != "anon_inode:[eventpoll]" && target != "anon_inode:[eventfd]" { // of the Go runtime
			found = append(found, strings.TrimRight(target, "[]0123456789"))
		}
	}
	return found
}

// newDescriptors lists the descriptors that this process did not have before.
func (m *machine) newDescriptors() []string {
	found := descriptors()
	for _, kind := range m.descriptors {
		if i := slices.Index(found, kind); i >= 0 {
			found = slices.Delete(found, i, i+1)
		}
	}
	return found
}

// displayFiles returns the files of displays and launches in /tmp.
func displayFiles() map[string]os.FileInfo {
	found := map[string]os.FileInfo{}
	for _, pattern := range []string{"/tmp/.X11-unix/X*", "/tmp/.X*-lock", "/tmp/svc-*", "/tmp/server-*.xkm"} {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			if info, err := os.Lstat(path); err == nil && !info.IsDir() {
				found[path] = info
			}
		}
	}
	return found
}

// newDisplayFiles lists new sockets, locks and links in /tmp that no display of another program
// uses.
func (m *machine) newDisplayFiles() []string {
	sockets, _ := os.ReadFile("/proc/net/unix")
	var found []string
	for path, now := range displayFiles() {
		if before, existed := m.displays[path]; existed && os.SameFile(before, now) && before.ModTime().Equal(now.ModTime()) {
			continue
		}
		if target, err := os.Readlink(path); err == nil {
			if strings.HasPrefix(target, m.dir+"/") {
				found = append(found, path)
			}
			continue
		}
		number := strings.TrimSuffix(strings.TrimLeft(filepath.Base(path), ".X"), "-lock")
		if !strings.Contains(string(sockets), "/tmp/.X11-unix/X"+number+"\n") {
			found = append(found, path)
		}
	}
	slices.Sort(found)
	return found
}

// leftoverMounts lists mounts of the run's directory.
func (m *machine) leftoverMounts() []string {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	var found []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, m.dir) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// observeCgroups records the control groups of the processes of this run.
func (m *machine) observeCgroups() {
	own := cgroupOf(os.Getpid())
	for _, p := range descendants(os.Getpid()) {
		if group := cgroupOf(p.pid); group != "" && group != own {
			m.cgroups[group] = true
		}
	}
	for _, p := range m.processes { // of other launches of this process
		delete(m.cgroups, cgroupOf(p.pid))
	}
}

// cgroupOf returns the directory of a process's control group; "" if it is not visible.
func cgroupOf(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	for line := range strings.Lines(string(text)) {
		path, unified := strings.CutPrefix(strings.TrimSpace(line), "0::")
		for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
			if _, err := os.Stat(filepath.Join(root, path, "cgroup.procs")); unified && err == nil {
				return filepath.Join(root, path)
			}
		}
	}
	return ""
}

// leftoverCgroups lists control groups of this run's processes that still exist.
func (m *machine) leftoverCgroups() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(m.cgroups)), func(group string) bool {
		_, err := os.Stat(group)
		return err != nil
	})
}

// listDir lists a directory without hidden files.
func listDir(dir string) []string {
	var found []string
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), ".") {
			found = append(found, filepath.Join(dir, entry.Name()))
		}
	}
	return found
}
