package e2e

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// process is a running process, as shown by /proc.
type process struct {
	pid, group  int
	uid         string
	command     string // arguments separated by spaces
	environment string // variables, each ended by a zero byte
}

func (p process) String() string {
	command := p.command
	if len(command) > 120 {
		command = command[:120] + "..."
	}
	return fmt.Sprintf("%d %s", p.pid, command)
}

func (p process) mentions(path string) bool {
	return strings.Contains(p.command, path) || strings.Contains(p.environment, path)
}

// references reports whether the process names a directory, or something in it.
func (p process) references(dir string) bool {
	for _, text := range []string{p.command, p.environment} {
		for i := strings.Index(text, dir); i >= 0; i = strings.Index(text, dir) {
			if text = text[i+len(dir):]; text == "" || strings.ContainsAny(text[:1], "/ \x00") {
				return true
			}
		}
	}
	return false
}

// processes returns the matching processes of this machine, without zombies.
func processes(match func(process) bool) []process {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var found []process
	for _, dir := range dirs {
		if p, ok := readProcess(dir); ok && match(p) {
			found = append(found, p)
		}
	}
	return found
}

func readProcess(dir string) (process, bool) {
	pid, _ := strconv.Atoi(filepath.Base(dir))
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return process{}, false
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if fields[0] == "Z" || fields[0] == "X" {
		return process{}, false
	}
	p := process{pid: pid}
	p.group, _ = strconv.Atoi(fields[2])
	command, _ := os.ReadFile(dir + "/cmdline")
	p.command = strings.TrimSpace(string(bytes.ReplaceAll(command, []byte{0}, []byte{' '})))
	environment, _ := os.ReadFile(dir + "/environ")
	p.environment = string(environment)
	status, _ := os.ReadFile(dir + "/status")
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "Uid:"); ok {
			p.uid = strings.Fields(rest)[0]
		}
	}
	return p, true
}

// imageUser is the user of the image svc-worker.
const imageUser = "65532"

// browserProcesses returns the processes of the launches below dir: processes that
// reference dir, and the processes of their groups and users, because sandboxed
// processes do not reference dir. The launches of the image share one user.
func browserProcesses(dir string) []process {
	own := strconv.Itoa(os.Getuid())
	groups, users := map[int]bool{}, map[string]bool{}
	for _, p := range processes(func(p process) bool { return p.references(dir) }) {
		groups[p.group] = true
		users[p.uid] = p.uid != own && p.uid != imageUser
	}
	return processes(func(p process) bool { return groups[p.group] || users[p.uid] })
}

// displaySockets returns the sockets of the X displays that the processes use.
func displaySockets(processes []process) []string {
	var found []string
	for _, p := range processes {
		for variable := range strings.SplitSeq(p.environment, "\x00") {
			if number, ok := strings.CutPrefix(variable, "DISPLAY=:"); ok {
				found = append(found, "/tmp/.X11-unix/X"+number)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// assertGone fails the test unless, within the limit, the processes have exited and
// no process references dir.
func assertGone(t *testing.T, limit time.Duration, before []process, dir string) {
	t.Helper()
	were := map[int]process{}
	for _, p := range before {
		were[p.pid] = p
	}
	began := time.Now()
	eventually(t, limit, "the browsers have exited", func() error {
		left := processes(func(p process) bool {
			was, known := were[p.pid]
			return known && was.group == p.group && was.uid == p.uid || p.references(dir)
		})
		if len(left) > 0 {
			return fmt.Errorf("%d of %d processes still run: %v", len(left), len(before), left)
		}
		return nil
	})
	t.Logf("%d processes gone within %v", len(before), time.Since(began).Round(time.Millisecond))
}

// assertNoDirectories fails the test if dir has a launch directory.
func assertNoDirectories(t *testing.T, dir string) {
	t.Helper()
	if left := directories(t, dir); len(left) > 0 {
		t.Errorf("launch directories left: %v", left)
	}
}

func directories(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		if entry.IsDir() {
			found = append(found, entry.Name())
		}
	}
	return found
}

// assertClosed fails the test if a program listens on the port.
func assertClosed(t *testing.T, port string) {
	t.Helper()
	for _, host := range []string{"127.0.0.1", "::1"} {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(host, port), time.Second)
		if err == nil {
			conn.Close()
			t.Errorf("a program still listens on %s, port %s", host, port)
		}
	}
}

// countProcesses returns the number of processes whose command contains part.
func countProcesses(processes []process, part string) int {
	n := 0
	for _, p := range processes {
		if strings.Contains(p.command, part) {
			n++
		}
	}
	return n
}
