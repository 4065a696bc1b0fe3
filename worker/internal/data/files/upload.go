package files

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// quotaStep is how many bytes of an upload are stored before the quota is checked again.
const quotaStep = 16 << 20

// Add stores a file of a client for the browser. The name must pass CheckName; size is
// the expected size, or negative. The file appears when it is complete. Errors: ErrQuota
// as *QuotaError, ErrDiskFull, ErrEnded, those of content.
func (l *Launch) Add(name string, size int64, content io.Reader) (_ File, err error) {
	id, written := uuid.NewString(), int64(0)
	partial := filepath.Join(l.dir, "partial-"+id)
	f, err := l.createPartial(partial)
	if err != nil {
		return File{}, err
	}
	defer func() {
		_ = f.Close()
		if err != nil {
			_ = os.Remove(partial)
			l.countUpload(-written)
		}
	}()
	if err := l.admit(max(size, 0)); err != nil {
		return File{}, err
	}
	sum := sha256.New()
	if written, err = l.copy(io.MultiWriter(f, sum), content); err != nil {
		return File{}, err
	}
	if err := f.Chmod(0o444); err != nil {
		return File{}, storeError(err)
	}
	added := File{
		ID: id, Name: name, Source: Upload, State: Complete, Size: written, SHA256: hex.EncodeToString(sum.Sum(nil)), Stored: name,
		Path: filepath.Join(l.visible, uploadsDir, id, name), CreatedAt: l.store.Clock.Now(),
	}
	return added, l.publish(partial, &added)
}

// createPartial creates the file of an upload, unless the launch has ended: Close removes it.
func (l *Launch) createPartial(path string) (*os.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil, ErrEnded
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, storeError(err)
	}
	return f, nil
}

// countUpload counts bytes of uploads in progress for the quota.
func (l *Launch) countUpload(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.usage.uploading += bytes
}

// copy copies an upload and checks the quota meanwhile.
func (l *Launch) copy(dst io.Writer, content io.Reader) (written int64, err error) {
	for {
		n, err := io.CopyN(dst, content, quotaStep)
		written += n
		l.countUpload(n)
		switch {
		case errors.Is(err, io.EOF):
			return written, l.admit(0)
		case err != nil:
			return written, storeError(err)
		}
		if err := l.admit(0); err != nil {
			return written, err
		}
	}
}

// publish moves a complete upload to where the browser sees it. After an error it is not
// there.
func (l *Launch) publish(partial string, f *File) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return ErrEnded
	}
	if len(l.files) >= maxFiles {
		return &QuotaError{Used: maxFiles, Limit: maxFiles}
	}
	shared, err := os.OpenRoot(l.Shared())
	if err != nil {
		return storeError(err)
	}
	defer shared.Close()
	dir := filepath.Join(uploadsDir, f.ID)
	if err := shared.Mkdir(dir, 0o755); err != nil {
		return storeError(err)
	}
	target, err := shared.Open(dir)
	if err != nil {
		return storeError(err)
	}
	defer target.Close()
	if err := unix.Renameat(unix.AT_FDCWD, partial, int(target.Fd()), f.Stored); err != nil {
		_ = shared.Remove(dir)
		return storeError(err)
	}
	l.files[f.ID] = f
	if err := l.save(); err != nil {
		delete(l.files, f.ID)
		l.removeContent(f)
		return err
	}
	l.usage.uploading -= f.Size
	l.store.Metrics.countEnd(f)
	l.notify()
	return nil
}

func storeError(err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("%w: %w", ErrDiskFull, err)
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: %w", ErrEnded, err)
	}
	return fmt.Errorf("store file: %w", err)
}
