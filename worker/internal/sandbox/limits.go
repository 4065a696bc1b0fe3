package sandbox

import "golang.org/x/sys/unix"

// Limits bound a program in addition to the control group, also where there is none. Zero is unlimited.
type Limits struct {
	Memory   int64 // address space, in bytes
	File     int64 // size of a file that it writes, in bytes
	Niceness int   // lowers its priority
}

// Apply limits a process, as far as the worker has the privileges for it. Zero is this thread and the program that it
// executes, which needs no privileges.
func (l Limits) Apply(pid int) {
	for resource, limit := range map[int]int64{unix.RLIMIT_AS: l.Memory, unix.RLIMIT_FSIZE: l.File} {
		if limit > 0 {
			_ = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: uint64(limit), Max: uint64(limit)}, nil)
		}
	}
	if l.Niceness > 0 {
		_ = unix.Setpriority(unix.PRIO_PROCESS, pid, l.Niceness)
	}
}
