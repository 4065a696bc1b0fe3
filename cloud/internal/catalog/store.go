package catalog

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	_ "gocloud.dev/blob/gcsblob" // gs://
	_ "gocloud.dev/blob/s3blob"  // s3:// and compatible services
)

// OpenStore opens the store of the archives: the bucket with this URL (file://, s3://
// or gs://), or the directory if the URL is empty. A missing directory is created.
func OpenStore(ctx context.Context, address, dir string) (*blob.Bucket, error) {
	if address == "" {
		return openDir(dir)
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("RELEASES_URL is not a URL") // not quoted, because the URL may contain a secret
	}
	switch u.Scheme {
	case "file":
		if u.Host != "" || u.Path == "" {
			return nil, errors.New("RELEASES_URL must be file:///PATH with an absolute path")
		}
		return openDir(u.Path)
	case "s3", "gs":
		store, err := blob.OpenBucket(ctx, address)
		if err != nil {
			return nil, fmt.Errorf("open RELEASES_URL: %w", err)
		}
		return store, nil
	}
	return nil, errors.New("RELEASES_URL must be a file://, s3:// or gs:// URL")
}

func openDir(dir string) (*blob.Bucket, error) {
	store, err := fileblob.OpenBucket(dir, &fileblob.Options{
		CreateDir: true, DirFileMode: 0o750, Metadata: fileblob.MetadataDontWrite,
		NoTempDir: true, // temporary files may be on another or a small file system
	})
	if err != nil {
		return nil, fmt.Errorf("open the directory of releases: %w", err)
	}
	return store, nil
}
