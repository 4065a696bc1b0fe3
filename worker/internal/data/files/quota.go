package files

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"syscall"
	"time"
)

const (
	// maxEntries limits how much of a directory is measured. Only a browser that creates
	// files by itself has more.
	maxEntries = 5 * maxFiles
	// quotaSlack is how much a launch can exceed twice its quota before its downloads are
	// stopped.
	quotaSlack = 1 << 30
	// measureInterval is the minimum between two measurements of a directory.
	measureInterval = time.Second
)

var errTooManyEntries = errors.New("too many entries")

// usage is what the files of a launch occupy, in bytes. Between two measurements of the
// directory it follows the sizes of known files.
type usage struct {
	measuredAt time.Time
	measured   int64
	knownBytes int64 // when it was measured
	uploading  int64 // of uploads that are not complete
}

// Usage measures how many bytes of the disk the files of the launch occupy, including
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
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			used += stat.Blocks * 512
		}
		return nil
	})
	if errors.Is(err, errTooManyEntries) {
		return math.MaxInt64
	}
	return used
}

// measure measures the directory, unless that was done within measureInterval.
func (l *Launch) measure() {
	now := l.store.Clock.Now()
	l.mu.Lock()
	if now.Sub(l.usage.measuredAt) < measureInterval {
		l.mu.Unlock()
		return
	}
	l.usage.measuredAt = now
	before := l.knownBytes()
	l.mu.Unlock()
	measured := l.Usage()
	l.mu.Lock()
	defer l.mu.Unlock()
	// Concurrent changes are counted too low rather than twice.
	l.usage.measured, l.usage.knownBytes = measured, max(before, l.knownBytes())
}

// knownBytes returns the size of all known files and uploads. The caller holds the lock.
func (l *Launch) knownBytes() int64 {
	sum := l.usage.uploading
	for _, f := range l.files {
		sum += f.Size
	}
	return sum
}

// used returns what the files occupy. The caller holds the lock.
func (l *Launch) used() int64 {
	grown := l.knownBytes() - l.usage.knownBytes
	if grown > math.MaxInt64-l.usage.measured {
		return math.MaxInt64
	}
	return max(l.usage.measured+grown, 0)
}

// CheckQuota cancels the downloads that exceed the quota or fill the disk. It reports
// whether the files exceed the quota so far that the browser must have written them by
// itself.
func (l *Launch) CheckQuota() (broken bool) {
	l.measure()
	quota, spare := l.store.Quota, l.store.spare()
	l.mu.Lock()
	defer l.mu.Unlock()
	used := l.used()
	for _, f := range l.files {
		if f.State != InProgress {
			continue
		}
		rest := max(f.Total-f.Size, 0) // of a download of known size
		switch {
		case quota > 0 && rest > quota-used:
			l.refuse(f, QuotaExceeded, used)
		case rest > spare:
			l.refuse(f, DiskFull, used)
		}
	}
	return quota > 0 && l.usage.measured/2 > quota+quotaSlack/2
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
		l.measure()
		l.mu.Lock()
		used := l.used()
		l.mu.Unlock()
		if more > quota-used {
			return &QuotaError{Used: used, Limit: quota}
		}
	}
	if more > l.store.spare() {
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
