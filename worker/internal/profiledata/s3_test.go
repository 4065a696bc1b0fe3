package profiledata_test

import (
	"net/http/httptest"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/browser-svc/svc/worker/internal/profiledata"
)

// TestRemote_S3 saves to an S3-compatible server.
func TestRemote_S3(t *testing.T) {
	backend := s3mem.New()
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	if err := backend.CreateBucket("profiles"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	bucket, err := profiledata.OpenBucket(t.Context(), "s3://profiles?region=us-east-1&use_path_style=true&disable_https=true&endpoint="+server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bucket.Close() })
	r := newRemote(t, bucket)
	for i := range int64(2) {
		r.save(t, large(i))
		assertTree(t, r.restored(t), large(i))
	}
	r.versions = r.versions[1:]
	r.clock.Advance(garbageAge + garbageAge)
	if done, err := r.CollectGarbage(t.Context(), index{r}, garbageAge); err != nil || done.Objects == 0 {
		t.Errorf("got %+v, %v", done, err)
	}
	assertTree(t, r.restored(t), large(1))
	for address, want := range map[string]bool{"s3://profiles?region=x": true, "file://host/x": false, "ftp://x": false, "file://": false, "%": false} {
		opened, err := profiledata.OpenBucket(t.Context(), address)
		if (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
		if err == nil {
			_ = opened.Close()
		}
	}
}
