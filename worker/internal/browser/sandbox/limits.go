package sandbox

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Limits bound a program in addition to the control group, also where there is none. Zero is unlimited.
type Limits struct {
	Memory    int64 // address space, in bytes
	File      int64 // size of a file that it writes, in bytes
	Processes int64 // processes and threads of its user in its user namespace; see hasProcessLimits
	Niceness  int   // lowers its priority
}

// hasProcessLimits reports whether the kernel counts the processes of a user in each user
// namespace separately, as Linux 5.14 and later do.
func hasProcessLimits() bool {
	var system unix.Utsname
	if err := unix.Uname(&system); err != nil {
		return false
	}
	var major, minor int
	n, _ := fmt.Sscanf(unix.ByteSliceToString(system.Release[:]), "%d.%d", &major, &minor)
	return n == 2 && (major > 5 || major == 5 && minor >= 14)
}

// Apply limits a process, as far as the worker has the privileges for it. Zero is this thread and the program that it
// executes, which needs no privileges.
func (l Limits) Apply(pid int) {
	for resource, limit := range map[int]int64{unix.RLIMIT_AS: l.Memory, unix.RLIMIT_FSIZE: l.File, unix.RLIMIT_NPROC: l.Processes} {
		if limit > 0 {
			_ = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: uint64(limit), Max: uint64(limit)}, nil)
		}
	}
	if l.Niceness > 0 {
		_ = unix.Setpriority(unix.PRIO_PROCESS, pid, l.Niceness)
	}
}
