package gcsblob_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fsouza/fake-gcs-server/fakestorage"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/browser-svc/svc/shared/gcsblob"
)

// newBucket returns an empty bucket of a local server, and one that does not exist.
func newBucket(t *testing.T) (found, missing *blob.Bucket) {
	t.Helper()
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{Scheme: "http", Host: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: "found"})
	open := func(name string) *blob.Bucket {
		u, err := url.Parse("gs://" + name + "?anonymous=true&endpoint=" + url.QueryEscape(server.URL()))
		if err != nil {
			t.Fatal(err)
		}
		b, err := gcsblob.Open(t.Context(), u, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		return b
	}
	return open("found"), open("missing")
}

func write(t *testing.T, b *blob.Bucket, key string, content []byte, opts *blob.WriterOptions) {
	t.Helper()
	if err := b.WriteAll(t.Context(), key, content, opts); err != nil {
		t.Fatalf("write %q: %v", key, err)
	}
}

func wantCode(t *testing.T, what string, err error, code gcerrors.ErrorCode) {
	t.Helper()
	if gcerrors.Code(err) != code {
		t.Errorf("%s: got %v, want the code %v", what, err, code)
	}
}

func TestBucket_WritesAndReads(t *testing.T) {
	b, _ := newBucket(t)
	content := bytes.Repeat([]byte("0123456789abcdef"), 700_000) // more than two chunks
	sum := md5.Sum(content)
	write(t, b, "a/large", content, &blob.WriterOptions{ContentType: "application/x-test", ContentMD5: sum[:], Metadata: map[string]string{"kind": "test"}})
	if got, err := b.ReadAll(t.Context(), "a/large"); err != nil || !bytes.Equal(got, content) {
		t.Fatalf("read %d bytes, %v", len(got), err)
	}
	attributes, err := b.Attributes(t.Context(), "a/large")
	if err != nil || attributes.Size != int64(len(content)) || attributes.ContentType != "application/x-test" || attributes.Metadata["kind"] != "test" || attributes.ModTime.IsZero() {
		t.Errorf("%+v, %v", attributes, err)
	}
	write(t, b, "empty", nil, nil)
	if got, err := b.ReadAll(t.Context(), "empty"); err != nil || len(got) != 0 {
		t.Errorf("%q, %v", got, err)
	}
	write(t, b, "empty", []byte("replaced"), nil)
	if got, err := b.ReadAll(t.Context(), "empty"); err != nil || string(got) != "replaced" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestBucket_ReadsRanges(t *testing.T) {
	b, _ := newBucket(t)
	write(t, b, "key", []byte("0123456789"), nil)
	for _, test := range []struct {
		offset, length int64
		want           string
	}{{0, -1, "0123456789"}, {3, -1, "3456789"}, {2, 4, "2345"}, {0, 3, "012"}, {4, 0, ""}, {8, 10, "89"}} {
		r, err := b.NewRangeReader(t.Context(), "key", test.offset, test.length, nil)
		if err != nil {
			t.Fatalf("%+v: %v", test, err)
		}
		got, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil || string(got) != test.want || r.Size() != 10 {
			t.Errorf("%+v: %q of %d bytes, %v", test, got, r.Size(), err)
		}
	}
}

func TestBucket_Lists(t *testing.T) {
	b, _ := newBucket(t)
	for _, key := range []string{"a/1", "a/2", "a/b/3", "c", "a.", "é"} {
		write(t, b, key, []byte(key), nil)
	}
	list := func(opts *blob.ListOptions) (found []string) {
		for all := b.List(opts); ; {
			o, err := all.Next(t.Context())
			if errors.Is(err, io.EOF) {
				return found
			}
			if err != nil {
				t.Fatal(err)
			}
			if !o.IsDir && o.Size != int64(len(o.Key)) {
				t.Errorf("%s has %d bytes", o.Key, o.Size)
			}
			found = append(found, o.Key)
		}
	}
	if got, want := list(nil), []string{"a.", "a/1", "a/2", "a/b/3", "c", "é"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := list(&blob.ListOptions{Prefix: "a/", Delimiter: "/"}), []string{"a/1", "a/2", "a/b/"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	var paged []string
	for token := blob.FirstPageToken; token != nil; {
		page, next, err := b.ListPage(t.Context(), token, 2, nil)
		if err != nil || len(page) > 2 {
			t.Fatalf("%d objects, %v", len(page), err)
		}
		for _, o := range page {
			paged = append(paged, o.Key)
		}
		token = next
	}
	if want := list(nil); !slices.Equal(paged, want) {
		t.Errorf("got %q by pages, want %q", paged, want)
	}
}

func TestBucket_CopiesAndDeletes(t *testing.T) {
	b, _ := newBucket(t)
	write(t, b, "from", []byte("content"), nil)
	if err := b.Copy(t.Context(), "to", "from", nil); err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(t.Context(), "from"); err != nil {
		t.Fatal(err)
	}
	if got, err := b.ReadAll(t.Context(), "to"); err != nil || string(got) != "content" {
		t.Errorf("%q, %v", got, err)
	}
	if exists, err := b.Exists(t.Context(), "from"); err != nil || exists {
		t.Errorf("%t, %v", exists, err)
	}
	wantCode(t, "delete a missing object", b.Delete(t.Context(), "from"), gcerrors.NotFound)
	wantCode(t, "copy a missing object", b.Copy(t.Context(), "to", "from", nil), gcerrors.NotFound)
}

func TestBucket_ReportsErrors(t *testing.T) {
	b, missing := newBucket(t)
	_, err := b.ReadAll(t.Context(), "missing")
	wantCode(t, "read a missing object", err, gcerrors.NotFound)
	_, err = b.Attributes(t.Context(), "missing")
	wantCode(t, "attributes of a missing object", err, gcerrors.NotFound)
	_, err = b.NewRangeReader(t.Context(), "missing", 0, 0, nil)
	wantCode(t, "an empty range of a missing object", err, gcerrors.NotFound)
	wantCode(t, "write to a missing bucket", missing.WriteAll(t.Context(), "key", []byte("content"), nil), gcerrors.NotFound)
	write(t, b, "key", []byte("first"), nil)
	wantCode(t, "create an existing object", b.WriteAll(t.Context(), "key", []byte("second"), &blob.WriterOptions{IfNotExist: true}), gcerrors.FailedPrecondition)
	_, err = b.SignedURL(t.Context(), "key", nil)
	wantCode(t, "a signed URL", err, gcerrors.Unimplemented)
	sum := md5.Sum([]byte("other"))
	if err := b.WriteAll(t.Context(), "key", []byte("third"), &blob.WriterOptions{ContentMD5: sum[:]}); err == nil {
		t.Error("an object with a wrong MD5 was written")
	}
	if got, err := b.ReadAll(t.Context(), "key"); err != nil || string(got) != "first" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestBucket_CreatesNothingWhenCanceled(t *testing.T) {
	b, _ := newBucket(t)
	ctx, cancel := context.WithCancel(t.Context())
	w, err := b.NewWriter(ctx, "key", &blob.WriterOptions{ContentType: "text/plain"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("content")); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := w.Close(); err == nil {
		t.Error("a canceled write succeeded")
	}
	if exists, err := b.Exists(t.Context(), "key"); err != nil || exists {
		t.Errorf("%t, %v", exists, err)
	}
}

func TestOpen_RefusesInvalidURLs(t *testing.T) {
	for address, want := range map[string]string{
		"gs://": "gs://BUCKET", "gs://bucket/path": "gs://BUCKET", "gs://bucket?prefix=a": `"prefix"`, "gs://bucket?anonymous=maybe": `"anonymous"`,
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := gcsblob.Open(t.Context(), u, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestOpen_TrustsRootsForTokens requests a token from a server whose certificate authority
// is not one of the system.
func TestOpen_TrustsRootsForTokens(t *testing.T) {
	tokens, authorized := 0, ""
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/token" {
			tokens++
			_, _ = io.WriteString(w, `{"access_token":"granted","token_type":"Bearer","expires_in":3600}`)
			return
		}
		authorized = r.Header.Get("Authorization")
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	private := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	account, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "worker@example.com", "private_key": string(private), "token_uri": server.URL + "/token",
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "account.json")
	if err := os.WriteFile(file, account, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	u, err := url.Parse("gs://found?endpoint=" + url.QueryEscape(server.URL))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	b, err := gcsblob.Open(t.Context(), u, roots)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	if _, err := b.Exists(t.Context(), "key"); err != nil || tokens != 1 || authorized != "Bearer granted" {
		t.Errorf("%v; %d tokens, Authorization %q", err, tokens, authorized)
	}
}
