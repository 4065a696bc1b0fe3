package browser

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// procInfo is a live process, zombies excluded, as /proc shows it.
type procInfo struct {
	pid, pgid int
	uid       int // real
}

// processes lists the live processes that match.
func processes(match func(procInfo) bool) []procInfo {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []procInfo
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := readProc(pid); ok && match(p) {
			found = append(found, p)
		}
	}
	return found
}

func readProc(pid int) (procInfo, bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	fields := sandbox.StatFields(pid)
	if len(fields) < 3 || fields[0] == "Z" || fields[0] == "X" {
		return procInfo{}, false
	}
	pgid, err := strconv.Atoi(fields[2])
	if err != nil {
		return procInfo{}, false
	}
	// /proc/<pid> of a sandboxed process belongs to root, so the user id comes from
	// its status file.
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return procInfo{}, false
	}
	uid, ok := statusUID(string(status))
	return procInfo{pid: pid, pgid: pgid, uid: uid}, ok
}

func statusUID(status string) (int, bool) {
	for line := range strings.SplitSeq(status, "\n") {
		if rest, ok := strings.CutPrefix(line, "Uid:"); ok {
			fields := strings.Fields(rest)
			if len(fields) == 0 {
				return 0, false
			}
			uid, err := strconv.Atoi(fields[0])
			return uid, err == nil
		}
	}
	return 0, false
}

// hasNoProcess reports whether no process has this real user id, zombies included. The
// kernel answers in microseconds, also with thousands of processes. The id is not 0.
func hasNoProcess(uid int) bool {
	_, err := unix.Getpriority(unix.PRIO_USER, uid)
	return errors.Is(err, unix.ESRCH)
}

// Pauses between the scans of killAll. A scan reads two files of every process of the
// machine, and a large process takes tens of milliseconds to end.
const (
	firstScanPause = 2 * time.Millisecond
	maxScanPause   = 32 * time.Millisecond
)

// killAll kills the matching processes, including new ones, until none remains. It
// returns an error after two seconds.
func killAll(match func(procInfo) bool) error {
	deadline := time.Now().Add(2 * time.Second)
	for pause := firstScanPause; ; pause = min(2*pause, maxScanPause) {
		left := processes(match)
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d killed processes are still alive, the first is %d", len(left), left[0].pid)
		}
		for _, p := range left {
			syscall.Kill(p.pid, syscall.SIGKILL)
		}
		time.Sleep(pause)
	}
}

func byUID(uid int) func(procInfo) bool {
	return func(p procInfo) bool { return p.uid == uid }
}

// byLaunch matches the processes of a launch by their group and marker, for launches
// that share a user: crash handlers leave the group but keep the marker.
func byLaunch(pgid int, dir, launchID string) func(procInfo) bool {
	return func(p procInfo) bool {
		if p.pgid == pgid {
			return true
		}
		id, ok := launchOf(p.pid, dir)
		return ok && id == launchID
	}
}

// launchOf returns the launch in dir that a process belongs to, from its marker.
// Chromium's main process overwrites its environment, so the marker is also on its
// command line; displays and crash handlers have it in their environment.
func launchOf(pid int, dir string) (launchID string, ok bool) {
	for file, marker := range map[string]string{"cmdline": markerSwitch, "environ": markerName + "="} {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			continue
		}
		if _, rest, found := bytes.Cut(raw, []byte(marker+dir+"/")); found {
			if end := bytes.IndexAny(rest, " \x00"); end >= 0 {
				rest = rest[:end]
			}
			return string(rest), true
		}
	}
	return "", false
}

// enoughSharedMemory is the shared memory that a browser may need, in bytes.
const enoughSharedMemory = 512 << 20

// smallSharedMemory reports whether /dev/shm is too small for a browser, as
// in a container with default settings.
func smallSharedMemory() bool {
	var fs unix.Statfs_t
	if unix.Statfs("/dev/shm", &fs) != nil {
		return true
	}
	return fs.Blocks*uint64(fs.Bsize) < enoughSharedMemory
}
