package browser

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/browser-svc/svc/worker/internal/browser/process"
)

// Memory returns the memory of the browser's processes and display in bytes;
// shared memory is divided among its users. It reads some files for each
// process.
func (b *Browser) Memory() int64 {
	var sum int64
	for _, p := range process.List(b.matchProcesses()) {
		sum += memoryOf(p.PID)
	}
	return sum
}

// matchProcesses returns a matcher for the browser's processes.
func (b *Browser) matchProcesses() func(process.Info) bool {
	if b.uid < 0 {
		return process.ByLaunch(b.proc.PID(), b.l.opts.Dir, b.LaunchID)
	}
	return process.ByUID(b.uid)
}

// memoryOf returns a process's proportional share of memory or, if that is not
// readable, its unshared memory.
func memoryOf(pid int) int64 {
	if raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid)); err == nil {
		for line := range strings.Lines(string(raw)) {
			if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
				kilobytes, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
				return kilobytes << 10
			}
		}
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, resident, shared int64
	if _, err := fmt.Sscan(string(raw), &size, &resident, &shared); err != nil {
		return 0
	}
	return max(resident-shared, 0) * int64(os.Getpagesize())
}
