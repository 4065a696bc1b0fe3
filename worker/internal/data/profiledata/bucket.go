package profiledata

import (
	"context"
	"crypto/x509"

	"gocloud.dev/blob"

	"github.com/browser-svc/svc/shared/bucket"
)

// OpenBucket opens the object store with this URL: file://, s3:// or gs://. A missing
// directory is created. roots are as in bucket.Open.
func OpenBucket(ctx context.Context, address string, roots *x509.CertPool) (*blob.Bucket, error) {
	return bucket.Open(ctx, "OBJECT_STORE_URL", address, 0o700, roots)
}
