package catalog

import (
	"context"

	"gocloud.dev/blob"

	"github.com/browser-svc/svc/shared/bucket"
)

const storeMode = 0o750 // of a new directory

// OpenStore opens the store of the archives: the bucket with this URL (file://, s3://
// or gs://), or the directory if the URL is empty. A missing directory is created.
func OpenStore(ctx context.Context, address, dir string) (*blob.Bucket, error) {
	if address == "" {
		return bucket.OpenDir("the directory of releases", dir, storeMode)
	}
	return bucket.Open(ctx, "RELEASES_URL", address, storeMode, nil)
}
