package selftest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// process is a process in /proc.
type process struct {
	pid, parent int
	zombie      bool
	command     string // its arguments, each followed by a space
}

// String describes the process briefly.
func (p process) String() string {
	const enough = 100
	command := strings.TrimSpace(p.command)
	if len(command) > enough {
		command = command[:enough] + "..."
	}
	if p.zombie {
		command = "(zombie)"
	}
	return fmt.Sprintf("%d %s", p.pid, command)
}

// becomeSubreaper makes this process the parent of orphaned descendants, so that
// no process of a worker escapes.
func becomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	return nil
}

// descendants returns all descendants of pid, zombies included.
func descendants(pid int) []process {
	children := map[int][]process{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if p, ok := readProcess(dir); ok {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	var found []process
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		for _, p := range children[next[0]] {
			found, next = append(found, p), append(next, p.pid)
		}
	}
	return found
}

func readProcess(dir string) (process, bool) {
	pid, err := strconv.Atoi(filepath.Base(dir))
	if err != nil {
		return process{}, false
	}
	fields := sandbox.StatFields(pid)
	if len(fields) < 2 || fields[0] == "X" {
		return process{}, false
	}
	p := process{pid: pid, zombie: fields[0] == "Z"}
	p.parent, _ = strconv.Atoi(fields[1])
	command, _ := os.ReadFile(dir + "/cmdline")
	p.command = string(bytes.ReplaceAll(command, []byte{0}, []byte{' '}))
	return p, true
}

// procStatusValue reads a number from /proc/<pid>/status; 0 if it is missing.
func procStatusValue(dir, name string) int64 {
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			if fields := strings.Fields(rest); len(fields) > 0 {
				number, _ := strconv.ParseInt(fields[0], 10, 64)
				return number
			}
		}
	}
	return 0
}

// reap waits for dead orphans, except for those in keep.
func reap(keep ...int) {
	for _, p := range descendants(os.Getpid()) {
		if p.zombie && p.parent == os.Getpid() && !slices.Contains(keep, p.pid) {
			_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
		}
	}
}

// descriptors lists a process's open descriptors, except for connections to the
// cloud's port: the number of idle ones is random.
func descriptors(pid, cloudPort int) []string {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	sockets := map[string]tcpSocket{}
	for _, s := range tcpSockets(pid) {
		sockets["socket:["+s.inode+"]"] = s
	}
	var found []string
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || sockets[target].remotePort == cloudPort {
			continue
		}
		kind, _, _ := strings.Cut(target, ":[") // without its number
		if s, ok := sockets[target]; ok {
			kind = s.String()
		}
		found = append(found, kind)
	}
	slices.Sort(found)
	return found
}

// tcpSocket is a TCP socket.
type tcpSocket struct {
	inode                 string
	localPort, remotePort int
	listens               bool
	uid                   int
}

// String describes the socket.
func (s tcpSocket) String() string {
	if s.listens {
		return fmt.Sprintf("a listener on port %d", s.localPort)
	}
	return fmt.Sprintf("a connection from port %d to %d", s.localPort, s.remotePort)
}

// tcpSockets returns the sockets of a process's network namespace.
func tcpSockets(pid int) []tcpSocket {
	var found []tcpSocket
	for _, table := range []string{"tcp", "tcp6"} {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) < 10 || fields[0] == "sl" {
				continue
			}
			uid, _ := strconv.Atoi(fields[7])
			found = append(found, tcpSocket{
				inode: fields[9], localPort: portOf(fields[1]), remotePort: portOf(fields[2]), listens: fields[3] == "0A", uid: uid,
			})
		}
	}
	return found
}

func portOf(address string) int {
	_, hex, _ := strings.Cut(address, ":")
	port, _ := strconv.ParseInt(hex, 16, 32)
	return int(port)
}

// hasSocket reports whether a process has a socket open, if visible.
func hasSocket(pid int, inode string) bool {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	return slices.ContainsFunc(links, func(link string) bool {
		target, _ := os.Readlink(link)
		return target == "socket:["+inode+"]"
	})
}
