package profiledata

import (
	"context"

	"gocloud.dev/blob"

	"github.com/browser-svc/svc/shared/bucket"
)

// OpenBucket opens the object store with this URL: file://, s3:// or gs://. A missing
// directory is created.
func OpenBucket(ctx context.Context, address string) (*blob.Bucket, error) {
	return bucket.Open(ctx, "PROFILE_STORE_URL", address, 0o700)
}
