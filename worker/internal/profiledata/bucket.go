package profiledata

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

// OpenBucket opens the object store with this URL: file://, s3:// or gs://. A missing
// directory is created.
func OpenBucket(ctx context.Context, address string) (*blob.Bucket, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("PROFILE_STORE_URL is not a URL") // not quoted, because the URL may contain a secret
	}
	switch u.Scheme {
	case "file":
		if u.Host != "" || u.Path == "" {
			return nil, errors.New("PROFILE_STORE_URL must be file:///PATH with an absolute path")
		}
		store, err := fileblob.OpenBucket(u.Path, &fileblob.Options{
			CreateDir: true, DirFileMode: 0o700, Metadata: fileblob.MetadataDontWrite,
			NoTempDir: true, // temporary files may be on another file system
		})
		if err != nil {
			return nil, fmt.Errorf("open PROFILE_STORE_URL: %w", err)
		}
		return store, nil
	case "s3", "gs":
		store, err := blob.OpenBucket(ctx, address)
		if err != nil {
			return nil, fmt.Errorf("open PROFILE_STORE_URL: %w", err)
		}
		return store, nil
	}
	return nil, errors.New("PROFILE_STORE_URL must be a file://, s3:// or gs:// URL")
}
