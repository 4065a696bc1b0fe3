package browser

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Memory is what the browser's processes and display take, in bytes: what they
// share is counted in parts. It reads some files for each process.
func (b *Browser) Memory() int64 {
	var sum int64
	for _, p := range processes(b.matchProcesses()) {
		sum += memoryOf(p.pid)
	}
	return sum
}

// matchProcesses matches what runs for this browser.
func (b *Browser) matchProcesses() func(procInfo) bool {
	if b.uid < 0 {
		return byLaunch(b.proc.pid(), b.l.opts.Dir, b.LaunchID)
	}
	return byUID(b.uid)
}

// memoryOf is a process's share of memory. Where the kernel doesn't tell it to
// this user, it is what the process shares with nobody.
func memoryOf(pid int) int64 {
	if raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid)); err == nil {
		for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
			if rest, ok := strings.CutPrefix(lines.Text(), "Pss:"); ok {
				kilobytes, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
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
