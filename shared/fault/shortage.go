package fault

import (
	"errors"
	"syscall"
)

// shortages are the messages for errors of the operating system that are a shortage on this
// machine, and no defect.
var shortages = map[syscall.Errno]string{
	syscall.EMFILE: tooManyFiles, syscall.ENFILE: tooManyFiles,
	syscall.ENOSPC: diskFull, syscall.EDQUOT: diskFull,
}

const (
	tooManyFiles = "This machine has no free file descriptors. Retry later. The operator can raise the limit of open files (ulimit -Hn, LimitNOFILE)."
	diskFull     = "The disk of this machine is full. Retry later. The operator must free space."
)

// shortageMessage returns the public message of a shortage that err wraps; empty for none.
func shortageMessage(err error) string {
	number, _ := errors.AsType[syscall.Errno](err)
	return shortages[number]
}
