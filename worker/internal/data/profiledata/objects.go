package profiledata

import (
	"context"
	"crypto/md5" //nolint:gosec // for Content-MD5
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
	"golang.org/x/sys/unix"
)

// objects are where a store has its objects.
type objects interface {
	write(ctx context.Context, name string, content []byte) error
	// read returns an object. Errors: errDamaged if it is missing.
	read(ctx context.Context, name string) ([]byte, error)
}

// errStore means that the object store failed.
var errStore = errors.New("the store of profile data failed")

func storeError(what, name string, err error) error {
	return fmt.Errorf("%w: %s %s: %w", errStore, what, name, err)
}

// bucketObjects are objects in a bucket.
type bucketObjects struct{ bucket *blob.Bucket }

func (o bucketObjects) write(ctx context.Context, name string, content []byte) error {
	sum := md5.Sum(content) //nolint:gosec // the store refuses an object that was changed on the way
	err := o.bucket.WriteAll(ctx, name, content, &blob.WriterOptions{ContentType: "application/octet-stream", ContentMD5: sum[:]})
	if err != nil {
		return storeError("write", name, err)
	}
	return nil
}

func (o bucketObjects) read(ctx context.Context, name string) ([]byte, error) {
	content, err := o.bucket.ReadAll(ctx, name)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, damaged("object %s is missing", name)
	}
	if err != nil {
		return nil, storeError("read", name, err)
	}
	return content, nil
}

// fileObjects are objects in a directory of this machine, which survive a power failure.
// The directory of an object must exist.
type fileObjects struct{ dir string }

func (o fileObjects) write(_ context.Context, name string, content []byte) (err error) {
	file, err := os.OpenFile(filepath.Join(o.dir, name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return storeError("write", name, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.Write(content); err != nil {
		return storeError("write", name, err)
	}
	if err := file.Sync(); err != nil {
		return storeError("write", name, err)
	}
	_ = unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED) // so that the disk is verified, not the page cache
	return nil
}

func (o fileObjects) read(_ context.Context, name string) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(o.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, damaged("object %s is missing", name)
	}
	if err != nil {
		return nil, storeError("read", name, err)
	}
	return content, nil
}
