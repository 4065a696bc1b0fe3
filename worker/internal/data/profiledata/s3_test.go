package profiledata_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"gocloud.dev/blob"

	"github.com/browser-svc/svc/worker/internal/data/profiledata"
)

// startS3 starts an S3-compatible server. It returns its handler and a bucket.
func startS3(t *testing.T) (http.Handler, *blob.Bucket) {
	t.Helper()
	backend := s3mem.New()
	handler := gofakes3.New(backend).Server()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	if err := backend.CreateBucket("profiles"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	bucket, err := profiledata.OpenBucket(t.Context(), s3URL(server.URL), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bucket.Close() })
	return handler, bucket
}

// s3URL returns the store of the S3 server with this URL.
func s3URL(server string) string {
	return "s3://profiles?region=us-east-1&use_path_style=true&disable_https=true&endpoint=" + server
}

// assertStores saves two versions to an empty bucket, and checks that each can be restored
// and that the garbage of the first one is deleted.
func assertStores(t *testing.T, bucket *blob.Bucket) {
	t.Helper()
	r := newRemote(t, bucket)
	for i := range int64(2) {
		r.save(t, large(i))
		assertTree(t, r.restored(t), large(i))
	}
	r.versions = r.versions[1:]
	if done, err := r.CollectGarbage(t.Context(), index{r}, allAges); err != nil || done.Objects == 0 {
		t.Errorf("got %+v, %v", done, err)
	}
	assertTree(t, r.restored(t), large(1))
}

// TestRemote_S3 saves to an S3-compatible server.
func TestRemote_S3(t *testing.T) {
	_, bucket := startS3(t)
	assertStores(t, bucket)
	for address, want := range map[string]bool{"s3://profiles?region=x": true, "file://host/x": false, "ftp://x": false, "file://": false, "%": false} {
		opened, err := profiledata.OpenBucket(t.Context(), address, nil)
		if (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
		if err == nil {
			_ = opened.Close()
		}
	}
}
