package files

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"path/filepath"
)

const (
	// hashStep is how many bytes are hashed before the file is looked up again.
	hashStep = 16 << 20
	// maxSize limits the sizes that a browser reports, so that their sum is a number.
	maxSize = 1 << 46
)

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
	l.begin(id, address, suggested)
}

// begin is Began. The caller holds the lock.
func (l *Launch) begin(id, address, suggested string) {
	if l.ended || l.files[id] != nil || l.discarded[id] || !idPattern().MatchString(id) {
		return
	}
	if len(l.files) >= maxFiles {
		l.store.Log.Warn("download canceled: the launch has too many files", "launchId", l.ID, "limit", maxFiles)
		l.discarded[id] = true
		l.cancel(id)
		return
	}
	l.files[id] = &File{
		ID: id, Name: SafeName(suggested), Source: Download, State: InProgress, Origin: originOf(address), CreatedAt: l.store.Clock.Now(), Stored: id, live: true,
	}
	l.observer(*l.files[id])
	l.notify()
}

// Progressed records the progress of a download.
func (l *Launch) Progressed(id string, received, total int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin(id, "", "") // no effect, unless its begin was lost
	f := l.files[id]
	if f == nil || !f.live {
		return
	}
	f.missing = false
	if f.State == InProgress {
		f.Size, f.Total = min(max(received, 0), maxSize), min(max(total, 0), maxSize)
		l.notify()
	}
}

// Completed records the end of a download. path is where the browser says it is, or
// empty.
func (l *Launch) Completed(id, path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin(id, "", "") // as in Progressed
	switch f := l.files[id]; {
	case f == nil:
		l.removeDiscarded(id, path)
	case f.live:
		l.complete(f, storedName(id, path))
	}
}

// complete records that the browser has stored a download. The caller holds the lock.
func (l *Launch) complete(f *File, stored string) {
	f.live, f.Stored = false, stored
	if f.State != InProgress { // the worker has canceled it, too late
		l.removeContent(f)
		return
	}
	f.State = Complete
	content, err := l.open(f)
	if quota := l.store.Quota; err == nil && quota > 0 && content.size > quota { // such as a file with holes
		_ = content.Close()
		err = ErrQuota
	}
	if err != nil {
		l.store.Log.Warn("a completed download is not readable", "launchId", l.ID, "file", f.ID, "error", err)
		f.State = Failed
		l.removeContent(f)
		l.finish(f)
		return
	}
	f.Size = content.size
	l.finish(f)
	l.store.work.Go(func() { l.hash(f.ID, content) })
}

// storedName returns the name of a complete download in its directory. Without the
// worker's settings Chromium names the file as the site suggests.
func storedName(id, path string) string {
	if name := filepath.Base(path); filepath.IsAbs(path) && CheckName(name) == "" {
		return name
	}
	return id
}

// Stopped records that a download has ended without success.
func (l *Launch) Stopped(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch f := l.files[id]; {
	case f == nil:
		l.removeDiscarded(id, "")
	case f.live:
		f.live = false
		l.stop(f)
	}
}

// stop records that a download has no content. The caller holds the lock.
func (l *Launch) stop(f *File) {
	l.removeContent(f)
	if f.State == InProgress {
		f.State = Canceled
		l.finish(f)
	}
}

// removeDiscarded removes what the browser has stored of a discarded download that has
// ended. The caller holds the lock.
func (l *Launch) removeDiscarded(id, path string) {
	if l.discarded[id] {
		delete(l.discarded, id)
		l.removeContent(&File{ID: id, Source: Download, Stored: storedName(id, path)})
	}
}

// finish announces the end of a download. The caller holds the lock.
func (l *Launch) finish(f *File) {
	if f.State != Complete {
		f.Size = 0
	}
	l.store.Metrics.countEnd(f)
	l.observer(*f)
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
	for remaining := content.size; remaining > 0; {
		n, err := io.CopyN(sum, content, min(remaining, hashStep))
		if err != nil || !l.has(id) {
			return
		}
		remaining -= n
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[id]
	if f == nil {
		return
	}
	f.SHA256 = hex.EncodeToString(sum.Sum(nil))
	l.observer(*f)
	if err := l.save(); err != nil {
		l.store.Log.Error("failed to save the index of files", "launchId", l.ID, "error", err)
	}
	l.notify()
}
