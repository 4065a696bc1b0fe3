package files

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"syscall"
)

const (
	// maxEntries limits how much of a directory is measured. Only a browser that creates
	// files by itself has more.
	maxEntries = 5 * maxFiles
	// quotaSlack is how much a launch can exceed twice its quota before its downloads are
	// stopped.
	quotaSlack = 1 << 30
)

var errTooManyEntries = errors.New("too many entries")

// Usage returns how many bytes of the disk the files of the launch occupy, including
// those that the browser has created without downloading them.
func (l *Launch) Usage() int64 {
	top, err := os.OpenRoot(l.dir)
	if err != nil {
		return 0
	}
	defer top.Close()
	used, entries := int64(0), 0
	err = fs.WalkDir(top.FS(), ".", func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // removed meanwhile, or the browser has closed it
		}
		if entries++; entries > maxEntries {
			return errTooManyEntries
		}
		info, err := e.Info()
		if err != nil || info.IsDir() {
			return nil //nolint:nilerr // removed meanwhile
		}
		if at, ok := info.Sys().(*syscall.Stat_t); ok {
			used += at.Blocks * 512
		}
		return nil
	})
	if errors.Is(err, errTooManyEntries) {
		return math.MaxInt64
	}
	return used
}

// CheckQuota cancels the downloads that exceed the quota or fill the disk. It reports
// whether the files exceed the quota so far that the browser must have written them by
// itself.
func (l *Launch) CheckQuota() (broken bool) {
	used, hasSpace := l.Usage(), l.store.hasSpace(0)
	l.mu.Lock()
	defer l.mu.Unlock()
	over := l.store.Quota > 0 && used > l.store.Quota
	for _, f := range l.files {
		if f.State != InProgress {
			continue
		}
		// The rest of a download of known size does not fit either.
		expected := l.store.Quota > 0 && f.Total > 0 && used+f.Total-f.Size > l.store.Quota
		switch {
		case over || expected:
			l.refuse(f, QuotaExceeded, used)
		case !hasSpace || f.Total > 0 && !l.store.hasSpace(f.Total-f.Size):
			l.refuse(f, DiskFull, used)
		}
	}
	return over && used/2 > l.store.Quota+quotaSlack/2
}

// refuse cancels a download. The caller holds the lock.
func (l *Launch) refuse(f *File, state State, used int64) {
	l.store.Log.Warn("download canceled by the worker", "launchId", l.ID, "file", f.ID, "reason", string(state), "usedBytes", used, "limitBytes", l.store.Quota,
		"expectedBytes", f.Total)
	f.State = state
	l.finish(f)
	l.cancel(f.ID)
}

// admit returns an error if this many more bytes do not fit.
func (l *Launch) admit(more int64) error {
	if quota := l.store.Quota; quota > 0 {
		if used := l.Usage(); used+more > quota {
			return &QuotaError{Used: used, Limit: quota}
		}
	}
	if !l.store.hasSpace(more) {
		return ErrDiskFull
	}
	return nil
}

// QuotaError is an ErrQuota with the bytes in use and their limit.
type QuotaError struct{ Used, Limit int64 }

// Error implements error.
func (e *QuotaError) Error() string { return ErrQuota.Error() }

// Unwrap returns ErrQuota.
func (e *QuotaError) Unwrap() error { return ErrQuota }
