// Package bucket opens object stores: directories, S3 and Google Cloud Storage.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	_ "gocloud.dev/blob/gcsblob" // gs://
	_ "gocloud.dev/blob/s3blob"  // s3:// and compatible services
)

// Open opens the object store with a URL: file://, s3:// or gs://. A missing directory is
// created with this mode. variable is the name of the configuration variable, for errors,
// which do not contain the URL: it may contain a secret.
func Open(ctx context.Context, variable, address string, mode os.FileMode) (*blob.Bucket, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New(variable + " is not a URL")
	}
	switch u.Scheme {
	case "file":
		if u.Host != "" || u.Path == "" {
			return nil, errors.New(variable + " must be file:///PATH with an absolute path")
		}
		return OpenDir(variable, u.Path, mode)
	case "s3", "gs":
		store, err := blob.OpenBucket(ctx, address)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", variable, err)
		}
		return store, nil
	}
	return nil, errors.New(variable + " must be a file://, s3:// or gs:// URL")
}

// OpenDir opens a directory, which is created with this mode if it is missing. name is
// what errors call it.
func OpenDir(name, dir string, mode os.FileMode) (*blob.Bucket, error) {
	store, err := fileblob.OpenBucket(dir, &fileblob.Options{
		CreateDir: true, DirFileMode: mode, Metadata: fileblob.MetadataDontWrite,
		NoTempDir: true, // temporary files may be on another or a small file system
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return store, nil
}
