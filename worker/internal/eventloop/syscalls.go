package eventloop

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// These system calls never block. So the scheduler of Go need not know of them: under load, its
// work for a system call takes about as long as the rest of what a relay does for a message.

func rawRead(fd int, p []byte) (int, error) { return transfer(unix.SYS_READ, fd, p) }

func rawWrite(fd int, p []byte) (int, error) { return transfer(unix.SYS_WRITE, fd, p) }

func transfer(call uintptr, fd int, p []byte) (int, error) {
	//nolint:gosec // the kernel gets the memory of the slice
	n, _, errno := unix.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// rawEpollWait returns the events that have occurred already.
func rawEpollWait(epoll int, events []unix.EpollEvent) (int, error) {
	//nolint:gosec // the kernel gets the memory of the slice
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
