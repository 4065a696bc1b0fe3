package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// process is a process as /proc shows it.
type process struct {
	pid, parent int
	state       string // as in proc(5)
	startTime   string // differs from that of an earlier process with the same pid
}

func readProcess(pid int) (p process, ok bool) {
	const state, parent, startTime = 0, 1, 19
	fields := StatFields(pid)
	if len(fields) <= startTime {
		return p, false
	}
	p = process{pid: pid, state: fields[state], startTime: fields[startTime]}
	var err error
	p.parent, err = strconv.Atoi(fields[parent])
	return p, err == nil
}

// StatFields returns the fields of /proc/PID/stat from the state on (proc(5)); nil if
// there is no such process.
func StatFields(pid int) []string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	// The process name before them is in parentheses and may contain any character.
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
}

// processTable contains all processes, by pid.
type processTable struct {
	processes map[int]process
	children  map[int][]process
}

func readProcesses() processTable {
	t := processTable{processes: map[int]process{}, children: map[int][]process{}}
	proc, err := os.Open("/proc")
	if err != nil {
		return t
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			t.processes[pid] = p
			t.children[p.parent] = append(t.children[p.parent], p)
		}
	}
	return t
}

// tree returns a process and its descendants, parents first. It is empty if the process
// has ended. The tree of the first process of a PID namespace is complete: the kernel gives
// it the children of processes that end.
func (t processTable) tree(first process) (all []process) {
	p, ok := t.processes[first.pid]
	if !ok || p.startTime != first.startTime || p.state == "Z" {
		return nil
	}
	all = []process{p}
	for i := 0; i < len(all); i++ {
		all = append(all, t.children[all[i].pid]...)
	}
	return all
}

// memory returns the resident memory of a process without files and shared memory, in bytes.
// Pages that it has in common with its parent since the fork count for both.
func (p process) memory() int64 {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/statm")
	if err != nil {
		return 0
	}
	var size, resident, shared int64
	if _, err := fmt.Sscan(string(raw), &size, &resident, &shared); err != nil {
		return 0
	}
	return max(resident-shared, 0) * int64(os.Getpagesize())
}

// signal sends a signal to the process, unless it has ended.
func (p process) signal(number syscall.Signal) {
	handle, err := os.FindProcess(p.pid) // of this process alone, so that the pid can be checked
	if err != nil {
		return
	}
	defer func() { _ = handle.Release() }()
	if now, ok := readProcess(p.pid); ok && now.startTime == p.startTime {
		_ = handle.Signal(number)
	}
}
