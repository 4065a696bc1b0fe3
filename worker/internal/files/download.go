package files

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"path/filepath"
)

// hashStep is how many bytes are hashed before the file is looked up again.
const hashStep = 16 << 20

// has reports whether a file exists and will outlive this moment.
func (l *Launch) has(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.files[id] != nil && (!l.ended || l.keep)
}

// Downloading reports whether a download is in progress.
func (l *Launch) Downloading() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.files {
		if f.Source == Download && f.State == InProgress {
			return true
		}
	}
	return false
}

// Began records that the browser has begun a download. Downloads with an unusable id are
// ignored.
func (l *Launch) Began(id, address, suggested string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.files[id] != nil || !idPattern().MatchString(id) {
		return
	}
	if len(l.files) >= maxFiles {
		l.store.Log.Warn("download canceled: the launch has too many files", "launchId", l.ID, "limit", maxFiles)
		l.cancel(id)
		return
	}
	l.files[id] = &File{
		ID: id, Name: SafeName(suggested), Source: Download, State: InProgress, Origin: originOf(address), CreatedAt: l.store.Clock.Now(), Stored: id,
	}
	l.notify()
}

// Progressed records the progress of a download.
func (l *Launch) Progressed(id string, received, total int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.files[id]; f != nil && f.State == InProgress {
		f.Size, f.Total = max(received, 0), max(total, 0)
		l.notify()
	}
}

// Completed records the end of a download. path is where the browser says it is, or
// empty.
func (l *Launch) Completed(id, path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[id]
	switch {
	case f == nil || f.State == Complete || f.Source != Download:
		return
	case f.State != InProgress: // the worker has canceled it, too late
		l.removeContent(f)
		return
	}
	// Without the worker's settings Chromium names the file as the site suggests.
	if name := filepath.Base(path); filepath.IsAbs(path) && CheckName(name) == "" {
		f.Stored = name
	}
	f.State = Complete
	content, err := l.open(f)
	if quota := l.store.Quota; err == nil && quota > 0 && content.size > quota { // such as a file with holes
		_ = content.Close()
		err = ErrQuota
	}
	if err != nil {
		l.store.Log.Warn("a completed download is not readable", "launchId", l.ID, "file", id, "error", err)
		f.State = Failed
		l.finish(f)
		return
	}
	f.Size = content.size
	l.finish(f)
	l.store.work.Go(func() { l.hash(id, content) })
}

// Stopped records that a download has ended without success.
func (l *Launch) Stopped(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[id]
	if f == nil || f.State == Complete || f.Source != Download {
		return
	}
	l.removeContent(f)
	if f.State == InProgress {
		f.State = Canceled
		l.finish(f)
	}
}

// finish announces the end of a download. The caller holds the lock.
func (l *Launch) finish(f *File) {
	if f.State != Complete {
		f.Size = 0
	}
	l.store.Metrics.countEnd(f)
	if err := l.save(); err != nil {
		l.store.Log.Error("failed to save the index of files", "launchId", l.ID, "error", err)
	}
	l.notify()
}

// hash computes the checksum of a complete file, unless the file is removed meanwhile.
func (l *Launch) hash(id string, content stored) {
	defer content.Close()
	l.store.hashing.Lock()
	defer l.store.hashing.Unlock()
	sum := sha256.New()
	for left := content.size; left > 0; {
		n, err := io.CopyN(sum, content, min(left, hashStep))
		if err != nil || !l.has(id) {
			return
		}
		left -= n
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[id]
	if f == nil {
		return
	}
	f.SHA256 = hex.EncodeToString(sum.Sum(nil))
	if err := l.save(); err != nil {
		l.store.Log.Error("failed to save the index of files", "launchId", l.ID, "error", err)
	}
	l.notify()
}
