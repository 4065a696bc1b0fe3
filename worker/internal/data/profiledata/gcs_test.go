package profiledata_test

import (
	"net/url"
	"testing"

	"github.com/fsouza/fake-gcs-server/fakestorage"

	"github.com/browser-svc/svc/worker/internal/data/profiledata"
)

// TestRemote_GCS saves to a server with the API of Google Cloud Storage.
func TestRemote_GCS(t *testing.T) {
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{Scheme: "http", Host: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: "profiles"})
	bucket, err := profiledata.OpenBucket(t.Context(), "gs://profiles?anonymous=true&endpoint="+url.QueryEscape(server.URL()), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bucket.Close() })
	assertStores(t, bucket)
}
