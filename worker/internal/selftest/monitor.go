package selftest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// machineMonitor finds resources that workers leak on this machine, compared
// with the state before.
type machineMonitor struct {
	dir      string // directory of the run
	displays map[string]fileID
	ports    map[string]tcpSocket // sockets that already listened, by inode

	mu           sync.Mutex
	cgroups      map[string]bool // of processes of this run, except those of this process
	maxProcesses int             // most concurrent processes
	stop         func()
}

// fileID distinguishes a file from a later one with the same name.
type fileID struct {
	inode   uint64
	changed syscall.Timespec
}

// startMonitor records the machine's state and keeps sampling the processes of
// this run.
func startMonitor(dir string) *machineMonitor {
	m := &machineMonitor{dir: dir, displays: displayFiles(), ports: listeners(), cgroups: map[string]bool{}}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			m.sample()
			select {
			case <-done:
				return
			case <-time.After(500 * time.Millisecond):
			}
		}
	}()
	m.stop = sync.OnceFunc(func() { close(done); <-ended })
	return m
}

func (m *machineMonitor) sample() {
	own := cgroupsOf(os.Getpid())
	processes := descendants(os.Getpid())
	m.mu.Lock()
	defer m.mu.Unlock()
	m.maxProcesses = max(m.maxProcesses, len(processes))
	for _, p := range processes {
		for _, group := range cgroupsOf(p.pid) {
			for ; !containsAny(group, own); group = filepath.Dir(group) {
				m.cgroups[group] = true
			}
		}
	}
}

// containsAny reports whether a group is, or contains, one of the groups. A root
// group contains all groups.
func containsAny(group string, groups []string) bool {
	_, err := os.Stat(filepath.Join(filepath.Dir(group), "cgroup.procs"))
	isRoot := err != nil
	return isRoot || slices.ContainsFunc(groups, func(g string) bool { return g == group || strings.HasPrefix(g, group+"/") })
}

// cgroupsOf returns the directories of a process's v1 and v2 control groups,
// where visible.
func cgroupsOf(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil
	}
	var found []string
	for line := range strings.Lines(string(text)) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(line, ":")
		for _, hierarchy := range []string{controllers, "unified"} {
			dir := filepath.Join("/sys/fs/cgroup", hierarchy, path)
			if _, err := os.Stat(dir); err == nil {
				found = append(found, dir)
				break
			}
		}
	}
	return found
}

// waitUntilEmpty polls until look returns nothing, and returns what remains
// after the timeout.
func waitUntilEmpty(timeout time.Duration, look func() []string) []string {
	deadline := time.Now().Add(timeout)
	for {
		found := look()
		if len(found) == 0 || time.Now().After(deadline) {
			return found
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// leftoverProcesses returns the remaining processes of this run, zombies
// included.
func (m *machineMonitor) leftoverProcesses() []string { return m.listProcesses(true) }

// runningProcesses returns the remaining processes that still run.
func (m *machineMonitor) runningProcesses() []string { return m.listProcesses(false) }

func (m *machineMonitor) listProcesses(dead bool) []string {
	reap()
	var found []string
	for _, p := range descendants(os.Getpid()) {
		if dead || !p.zombie {
			found = append(found, p.String())
		}
	}
	marked, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range marked { // in case they were not reparented to this process
		p, ok := readProcess(dir)
		if ok && p.pid != os.Getpid() && strings.Contains(p.command, m.dir+"/") && !slices.Contains(found, p.String()) {
			found = append(found, p.String())
		}
	}
	return found
}

// newListeners lists listening ports of this run that did not exist before.
func (m *machineMonitor) newListeners() []string {
	ours := map[int]bool{os.Getpid(): true}
	for _, p := range descendants(os.Getpid()) {
		ours[p.pid] = true
	}
	var found []string
	for inode, s := range listeners() {
		if _, before := m.ports[inode]; before || os.Geteuid() != 0 && s.uid != os.Geteuid() {
			continue
		}
		if holder := socketOwner(inode); holder == 0 || ours[holder] {
			found = append(found, strconv.Itoa(s.localPort))
		}
	}
	return found
}

func listeners() map[string]tcpSocket {
	found := map[string]tcpSocket{}
	for _, s := range tcpSockets(os.Getpid()) {
		if s.listens {
			found[s.inode] = s
		}
	}
	return found
}

// socketOwner returns a process that has the socket; 0 if none is visible.
func socketOwner(inode string) int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if pid, _ := strconv.Atoi(filepath.Base(dir)); hasSocket(pid, inode) {
			return pid
		}
	}
	return 0
}

// newDisplayFiles lists new sockets, locks and links in /tmp that no server
// uses.
func (m *machineMonitor) newDisplayFiles() []string {
	serving, _ := os.ReadFile("/proc/net/unix")
	var found []string
	for path, now := range displayFiles() {
		if was, before := m.displays[path]; before && was == now {
			continue
		}
		if target, err := os.Readlink(path); err == nil {
			if strings.HasPrefix(target, m.dir+"/") {
				found = append(found, path)
			}
			continue
		}
		number := strings.TrimSuffix(strings.TrimLeft(filepath.Base(path), ".X"), "-lock")
		if !strings.Contains(string(serving), "/tmp/.X11-unix/X"+number+"\n") {
			found = append(found, path)
		}
	}
	slices.Sort(found)
	return found
}

// displayFiles returns the files of displays and launches in /tmp.
func displayFiles() map[string]fileID {
	found := map[string]fileID{}
	for _, pattern := range []string{"/tmp/.X11-unix/X*", "/tmp/.X*-lock", "/tmp/svc-*", "/tmp/server-*.xkm"} {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			info, err := os.Lstat(path)
			if err != nil || info.IsDir() {
				continue
			}
			if stat, ok := info.Sys().(*syscall.Stat_t); ok {
				found[path] = fileID{stat.Ino, stat.Ctim}
			}
		}
	}
	return found
}

// leftoverMounts lists mounts of the run's directory.
func (m *machineMonitor) leftoverMounts() []string {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	var found []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, m.dir) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// leftoverCgroups lists control groups of this run's processes that still exist.
func (m *machineMonitor) leftoverCgroups() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []string
	for group := range m.cgroups {
		if _, err := os.Stat(group); err == nil {
			found = append(found, group)
		}
	}
	slices.Sort(found)
	return found
}

// listDir lists a directory of the run without hidden files.
func (m *machineMonitor) listDir(dir string) []string {
	var found []string
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), ".") {
			found = append(found, filepath.Join(dir, entry.Name()))
		}
	}
	return found
}
