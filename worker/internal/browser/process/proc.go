package process

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

// Markers of the processes of a launch: their value is the directory of the launch.
const (
	MarkerName   = "SVC_LAUNCH"    // in the environment
	MarkerSwitch = "--svc-launch=" // on the command line
)

// Info is a live process, zombies excluded, as /proc shows it.
type Info struct {
	PID, PGID int
	UID       int // real
}

// List lists the live processes that match.
func List(match func(Info) bool) []Info {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []Info
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := Read(pid); ok && match(p) {
			found = append(found, p)
		}
	}
	return found
}

// Read returns a live process; false if there is none.
func Read(pid int) (Info, bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	fields := sandbox.StatFields(pid)
	if len(fields) < 3 || fields[0] == "Z" || fields[0] == "X" {
		return Info{}, false
	}
	pgid, err := strconv.Atoi(fields[2])
	if err != nil {
		return Info{}, false
	}
	// /proc/<pid> of a sandboxed process belongs to root, so the user id comes from
	// its status file.
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return Info{}, false
	}
	uid, ok := statusUID(string(status))
	return Info{PID: pid, PGID: pgid, UID: uid}, ok
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

// HasNone reports whether no process has this real user id, zombies included. The
// kernel answers in microseconds, also with thousands of processes. The id is not 0.
func HasNone(uid int) bool {
	_, err := unix.Getpriority(unix.PRIO_USER, uid)
	return errors.Is(err, unix.ESRCH)
}

// Pauses between the scans of KillAll. A scan reads two files of every process of the
// machine, and a large process takes tens of milliseconds to end.
const (
	firstScanPause = 2 * time.Millisecond
	maxScanPause   = 32 * time.Millisecond
)

// KillAll kills the matching processes, including new ones, until none remains. It
// returns an error after two seconds.
func KillAll(match func(Info) bool) error {
	deadline := time.Now().Add(2 * time.Second)
	for pause := firstScanPause; ; pause = min(2*pause, maxScanPause) {
		left := List(match)
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d killed processes are still alive, the first is %d", len(left), left[0].PID)
		}
		for _, p := range left {
			syscall.Kill(p.PID, syscall.SIGKILL)
		}
		time.Sleep(pause)
	}
}

// ByUID matches the processes of a user.
func ByUID(uid int) func(Info) bool {
	return func(p Info) bool { return p.UID == uid }
}

// ByLaunch matches the processes of a launch by their group and marker, for launches
// that share a user: crash handlers leave the group but keep the marker.
func ByLaunch(pgid int, dir, launchID string) func(Info) bool {
	return func(p Info) bool {
		if p.PGID == pgid {
			return true
		}
		id, ok := LaunchID(p.PID, dir)
		return ok && id == launchID
	}
}

// LaunchID returns the launch in dir that a process belongs to, from its marker.
// Chromium's main process overwrites its environment, so the marker is also on its
// command line; displays and crash handlers have it in their environment.
func LaunchID(pid int, dir string) (launchID string, ok bool) {
	for file, marker := range map[string]string{"cmdline": MarkerSwitch, "environ": MarkerName + "="} {
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
