package fleet

import (
	"errors"
	"math"
	"os"
	"syscall"
)

// freeDescriptors returns how many files this process can still open; MaxInt64 if it is unknown.
func freeDescriptors() int64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt64 {
		return math.MaxInt64
	}
	const directory = "/proc/self/fd"
	if info, err := os.Stat(directory); err == nil && info.Size() > 0 { // the number, since Linux 6.2
		return int64(limit.Cur) - info.Size()
	}
	open, err := os.ReadDir(directory)
	switch {
	case errors.Is(err, syscall.EMFILE):
		return 0
	case err != nil:
		return math.MaxInt64
	}
	return int64(limit.Cur) - int64(len(open))
}
