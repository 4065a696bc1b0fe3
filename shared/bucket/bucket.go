// Package bucket opens object stores: directories, S3 and Google Cloud Storage.
package bucket

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	_ "gocloud.dev/blob/s3blob" // s3:// and compatible services

	"github.com/browser-svc/svc/shared/gcsblob"
)

// Open opens the object store with a URL: file://, s3:// or gs://. A missing directory is
// created with this mode. roots are the trusted certificate authorities; nil for those of
// the system. variable is the name of the configuration variable, for errors, which do not
// contain the URL: it may contain a secret.
func Open(ctx context.Context, variable, address string, mode os.FileMode, roots *x509.CertPool) (*blob.Bucket, error) {
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
		store, err := openRemote(ctx, u, roots)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", variable, err)
		}
		return store, nil
	}
	return nil, errors.New(variable + " must be a file://, s3:// or gs:// URL")
}

func openRemote(ctx context.Context, u *url.URL, roots *x509.CertPool) (*blob.Bucket, error) {
	if u.Scheme == "gs" {
		return gcsblob.Open(ctx, u, roots)
	}
	store, err := blob.OpenBucket(ctx, u.String())
	if err != nil {
		return nil, err
	}
	var client *s3.Client
	if roots != nil && store.As(&client) { // the URL opener takes no HTTP client
		*client = *s3.New(client.Options(), func(o *s3.Options) {
			o.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.TLSClientConfig.RootCAs = roots })
		})
	}
	return store, nil
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
