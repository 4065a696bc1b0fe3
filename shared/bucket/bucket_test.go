package bucket_test

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/fsouza/fake-gcs-server/fakestorage"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/browser-svc/svc/shared/bucket"
)

// TestOpen_TrustsRoots opens stores whose certificate authority is not one of the system.
func TestOpen_TrustsRoots(t *testing.T) {
	objects := s3mem.New()
	if err := objects.CreateBucket("kept"); err != nil {
		t.Fatal(err)
	}
	google, err := fakestorage.NewServerWithOptions(fakestorage.Options{NoListener: true})
	if err != nil {
		t.Fatal(err)
	}
	google.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: "kept"})
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	for _, store := range []struct {
		address string
		handler http.Handler
	}{
		{"s3://kept?region=us-east-1&use_path_style=true&endpoint=", gofakes3.New(objects).Server()},
		{"gs://kept?anonymous=true&endpoint=", google.HTTPHandler()},
	} {
		server := httptest.NewTLSServer(store.handler)
		t.Cleanup(server.Close)
		roots := x509.NewCertPool()
		roots.AddCert(server.Certificate())
		for _, tc := range []struct {
			roots   *x509.CertPool
			message string
		}{{roots, ""}, {nil, "certificate signed by unknown authority"}} {
			opened, err := bucket.Open(t.Context(), "STORE_URL", store.address+url.QueryEscape(server.URL), 0o700, tc.roots)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = opened.Close() })
			err = opened.WriteAll(t.Context(), "object", []byte("content"), nil)
			if tc.message == "" && err != nil || tc.message != "" && (err == nil || !strings.Contains(err.Error(), tc.message)) {
				t.Errorf("%s: got %v, want %q", store.address, err, tc.message)
			}
		}
	}
}
