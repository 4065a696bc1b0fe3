package rest_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/api/rest"
	"github.com/browser-svc/svc/cloud/internal/browsers/catalog"
	"github.com/browser-svc/svc/cloud/internal/browsers/catalog/catalogtest"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/oapi"
)

// releasesAPI is the part of the cloud with the catalog.
type releasesAPI struct {
	accounts // sends the requests
	service  *catalog.Service
	worker   credential
	dir      string // directory of the store
}

type releaseHandlers struct {
	unimplemented
	rest.Releases
}

func newReleasesAPI(t *testing.T) *releasesAPI {
	t.Helper()
	return newReleasesAPIIn(t, "")
}

func newReleasesAPIIn(t *testing.T, storeURL string) *releasesAPI {
	t.Helper()
	fake := clock.NewFake(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	a := &releasesAPI{accounts: accounts{t: t, db: dbtest.New(t), clock: fake}, worker: apiKey("good"), dir: t.TempDir()}
	store, err := catalog.OpenStore(t.Context(), storeURL, a.dir)
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	a.service = &catalog.Service{DB: a.db, Store: store, Clock: fake}
	document := contracttest.Load(t, "cloud.yaml")
	nobody := func(*http.Request) (context.Context, error) { return nil, oapi.ErrNoCredential }
	guard, err := oapi.NewGuard(document.Document, oapi.Options{Authenticators: map[string]oapi.Authenticator{
		"dashboardSession": nobody, "dashboardBearer": nobody,
		"organizationKey": func(r *http.Request) (context.Context, error) {
			if r.Header.Get("X-API-Key") != "good" {
				return nil, oapi.ErrNoCredential
			}
			return auth.WithCaller(r.Context(), auth.Caller{OrgID: uuid.Must(uuid.NewV7())}), nil
		},
	}})
	must(t, err)
	public := &url.URL{Scheme: "https", Host: "svc.example"}
	handlers := releaseHandlers{Releases: rest.Releases{Catalog: a.service, Public: public}}
	e := httpd.New(httpd.Options{Document: document})
	e.Use(guard.Middleware())
	cloudapi.RegisterHandlers(e, cloudapi.NewStrictHandler(handlers, nil))
	handlers.Register(e)
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	a.url, a.client = server.URL, contracttest.New(t, document, nil)
	return a
}

// publish publishes a build with an archive of about this many bytes.
func (a *releasesAPI) publish(version, arch string, size int64) (catalog.Release, string) {
	a.t.Helper()
	file, err := os.Create(filepath.Join(a.t.TempDir(), "build.zip"))
	must(a.t, err)
	defer file.Close()
	w := zip.NewWriter(file)
	entry, err := w.CreateHeader(&zip.FileHeader{Name: "chrome", Method: zip.Store})
	must(a.t, err)
	_, err = io.CopyN(entry, rand.NewChaCha8([32]byte{7}), size)
	must(a.t, err)
	must(a.t, w.Close())
	r, err := a.service.Publish(a.t.Context(), catalog.Publication{
		Build: catalog.Build{Version: version, OS: "linux", Arch: arch}, Channel: "stable", File: file,
	})
	must(a.t, err)
	a.clock.Advance(time.Minute)
	return r, file.Name()
}

// download requests an archive and reads the answer.
func (a *releasesAPI) download(ctx context.Context, method, query string, headers credential) (*http.Response, []byte) {
	a.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, a.url+"/v1/chromium/releases/"+query, nil)
	must(a.t, err)
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	res, err := a.client.Do(r)
	must(a.t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	must(a.t, err)
	return res, body
}

const build = "156.0.8078.79/download?os=linux&arch=x86_64"

func TestListReleases_RequiresKey(t *testing.T) {
	a := newReleasesAPI(t)
	r, _ := a.publish("156.0.8078.79", "x86_64", 1000)
	a.publish("99.0.1.1", "x86_64", 2000)
	a.publish("156.0.8078.79", "arm64", 3000)
	for query, want := range map[string]string{
		"":                                "156.0.8078.79/arm64 99.0.1.1/x86_64 156.0.8078.79/x86_64",
		"?sortBy=version&arch=x86_64":     "156.0.8078.79/x86_64 99.0.1.1/x86_64",
		"?sortBy=sizeBytes&sortOrder=asc": "156.0.8078.79/x86_64 99.0.1.1/x86_64 156.0.8078.79/arm64",
		"?major=99":                       "99.0.1.1/x86_64",
		"?os=windows":                     "",
		"?limit=1&page=2":                 "99.0.1.1/x86_64",
	} {
		list := decode[cloudapi.ChromiumReleaseList](t, a.do("GET", "/v1/chromium/releases"+query, a.worker, nil), 200)
		var got []string
		for _, item := range list.Items {
			got = append(got, item.Version+"/"+string(item.Arch))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", query, got, want)
		}
	}
	list := decode[cloudapi.ChromiumReleaseList](t, a.do("GET", "/v1/chromium/releases?sortBy=version&arch=x86_64", a.worker, nil), 200)
	want := cloudapi.ChromiumRelease{Version: r.Version, Major: 156, Channel: "stable", Os: "linux", Arch: "x86_64", SizeBytes: r.SizeBytes,
		Sha256: r.SHA256, PublishedAt: r.PublishedAt.UTC(), DownloadUrl: "https://svc.example/v1/chromium/releases/156.0.8078.79/download?arch=x86_64&os=linux"}
	got := list.Items[0]
	got.PublishedAt = got.PublishedAt.UTC()
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	a.wrong("GET", "/v1/chromium/releases", nil, nil).want(t, 401, "AUTHENTICATION_ERROR")
	a.wrong("GET", "/v1/chromium/releases", bearer("good"), nil).want(t, 401, "AUTHENTICATION_ERROR")
	a.wrong("GET", "/v1/chromium/releases?sortBy=sha256", a.worker, nil).want(t, 400, "VALIDATION_ERROR")
}

func TestDownload_SupportsRanges(t *testing.T) {
	a := newReleasesAPI(t)
	r, file := a.publish("156.0.8078.79", "x86_64", 5000)
	content, err := os.ReadFile(file)
	must(t, err)
	size, etag := len(content), `"`+r.SHA256+`"`
	failures := map[int]string{
		412: `"code":"RESOURCE_CONFLICT","message":"The archive does not match the precondition of the request."`,
		416: `"code":"VALIDATION_ERROR","message":"The range is outside the archive.","details":[{"field":"Range","code":"CUSTOM","message":"must lie within the archive","constraint":{"max":5126}}]`,
	}
	for name, test := range map[string]struct {
		method       string
		headers      credential
		status       int
		start, end   int
		contentRange string
	}{
		"the whole":           {"GET", nil, 200, 0, size, ""},
		"a-b":                 {"GET", credential{"Range": "bytes=10-19"}, 206, 10, 20, "bytes 10-19/5126"},
		"a-":                  {"GET", credential{"Range": "bytes=5000-"}, 206, 5000, size, "bytes 5000-5125/5126"},
		"suffix":              {"GET", credential{"Range": "bytes=-12"}, 206, size - 12, size, "bytes 5114-5125/5126"},
		"past the end":        {"GET", credential{"Range": "bytes=5000-9999"}, 206, 5000, size, "bytes 5000-5125/5126"},
		"if the same":         {"GET", credential{"Range": "bytes=10-19", "If-Range": etag}, 206, 10, 20, "bytes 10-19/5126"},
		"if another":          {"GET", credential{"Range": "bytes=10-19", "If-Range": `"other"`}, 200, 0, size, ""},
		"if weakly the same":  {"GET", credential{"Range": "bytes=10-19", "If-Range": "W/" + etag}, 200, 0, size, ""},
		"HEAD":                {"HEAD", nil, 200, 0, size, ""},
		"HEAD of a part":      {"HEAD", credential{"Range": "bytes=10-19"}, 206, 10, 20, "bytes 10-19/5126"},
		"another unit":        {"GET", credential{"Range": "pages=1-2"}, 416, 0, 0, "bytes */5126"},
		"outside":             {"GET", credential{"Range": "bytes=5126-"}, 416, 0, 0, "bytes */5126"},
		"outside, if another": {"GET", credential{"Range": "bytes=5126-", "If-Range": `"other"`}, 200, 0, size, ""},
		"HEAD outside":        {"HEAD", credential{"Range": "bytes=5126-"}, 416, 0, 0, "bytes */5126"},
		"unchanged":           {"GET", credential{"If-None-Match": etag}, 304, 0, 0, ""},
		"only the same":       {"GET", credential{"If-Match": etag}, 200, 0, size, ""},
		"only another":        {"GET", credential{"If-Match": `"other"`}, 412, 0, 0, ""},
		"only an older":       {"GET", credential{"If-Unmodified-Since": "Sat, 21 Nov 2020 10:15:00 GMT"}, 412, 0, 0, ""},
		"HEAD of another":     {"HEAD", credential{"If-Match": `"other"`}, 412, 0, 0, ""},
		"a part of another":   {"GET", credential{"If-Match": `"other"`, "Range": "bytes=5126-"}, 412, 0, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			headers := a.worker
			for name, value := range test.headers {
				headers = headers.with(name, value)
			}
			res, body := a.download(t.Context(), test.method, build, headers)
			if res.StatusCode != test.status || res.Header.Get("Content-Range") != test.contentRange {
				t.Fatalf("status %d, Content-Range %q: %.200s", res.StatusCode, res.Header.Get("Content-Range"), body)
			}
			if failure, failed := failures[test.status]; failed {
				failure = `{"success":false,"error":{` + failure + "}}\n"
				if test.method == "GET" && string(body) != failure || test.method == "HEAD" && len(body) > 0 {
					t.Errorf("body %s", body)
				}
				if h := res.Header; h.Get("Content-Type") != "application/json" || h.Get("ETag")+h.Get("Content-Disposition") != "" {
					t.Errorf("headers %v", res.Header)
				}
				return
			}
			if res.Header.Get("ETag") != etag {
				t.Errorf("ETag %s", res.Header.Get("ETag"))
			}
			if test.status == 304 {
				return
			}
			if res.ContentLength != int64(test.end-test.start) || res.Header.Get("X-Checksum-Sha256") != r.SHA256 {
				t.Errorf("%d bytes announced, headers %v", res.ContentLength, res.Header)
			}
			if want := content[test.start:test.end]; test.method == "GET" && !bytes.Equal(body, want) {
				t.Errorf("got %d bytes, want %d", len(body), len(want))
			}
		})
	}
}

func TestDownload_ConcurrentRanges(t *testing.T) {
	a := newReleasesAPI(t)
	_, file := a.publish("156.0.8078.79", "x86_64", 5000)
	content, err := os.ReadFile(file)
	must(t, err)
	res, body := a.download(t.Context(), "GET", build, a.worker.with("Range", "bytes=0-9,100-109"))
	_, params, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	must(t, err)
	parts := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for _, want := range [][]byte{content[:10], content[100:110]} {
		part, err := parts.NextPart()
		must(t, err)
		got, err := io.ReadAll(part)
		must(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("got %x, want %x", got, want)
		}
	}
}

func TestDownload_RequiresKey(t *testing.T) {
	a := newReleasesAPI(t)
	a.publish("156.0.8078.79", "x86_64", 1000)
	for query, test := range map[string]struct {
		credential credential
		status     int
		code       string
	}{
		build:                          {nil, 401, "AUTHENTICATION_ERROR"},
		"156.0.8078.79/download?arch=": {a.worker, 400, "VALIDATION_ERROR"},
		"156.0.8078.79/download?os=linux&arch=z80":        {a.worker, 400, "VALIDATION_ERROR"},
		"156.0.8078.79/download?os=linux&arch=x86_64&x=1": {a.worker, 400, "VALIDATION_ERROR"},
		"156/download?os=linux&arch=x86_64":               {a.worker, 400, "VALIDATION_ERROR"},
		"..%2F..%2Fetc/download?os=linux&arch=x86_64":     {a.worker, 400, "VALIDATION_ERROR"},
		"156.0.8078.80/download?os=linux&arch=x86_64":     {a.worker, 404, "RESOURCE_NOT_FOUND"},
		"156.0.8078.79/download?os=linux&arch=arm64":      {a.worker, 404, "RESOURCE_NOT_FOUND"},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			res, body := a.download(contracttest.AllowInvalidRequest(t.Context()), method, query, test.credential)
			if res.StatusCode != test.status || method == "GET" && !strings.Contains(string(body), test.code) {
				t.Errorf("%s %s: %d %s", method, query, res.StatusCode, body)
			}
		}
	}
}

// TestDownload_ResumesAfterCut downloads 200 MB over connections that break, and
// resumes after each break.
func TestDownload_ResumesAfterCut(t *testing.T) {
	for name, store := range map[string]func(*testing.T) string{
		"directory": func(*testing.T) string { return "" },
		"S3":        func(t *testing.T) string { url, _ := catalogtest.S3(t); return url },
	} {
		t.Run(name, func(t *testing.T) {
			a := newReleasesAPIIn(t, store(t))
			r, _ := a.publish("156.0.8078.79", "x86_64", 200<<20)
			var before, now runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			hash, have, cuts, most := sha256.New(), int64(0), 0, uint64(0)
			for ; have < r.SizeBytes; cuts++ {
				request, err := http.NewRequestWithContext(t.Context(), "GET", a.url+"/v1/chromium/releases/"+build, nil)
				must(t, err)
				request.Header.Set("X-API-Key", "good")
				request.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
				request.Header.Set("If-Range", `"`+r.SHA256+`"`)
				res, err := a.client.Do(request)
				must(t, err)
				if res.StatusCode != http.StatusPartialContent || res.Header.Get("Content-Range") != fmt.Sprintf("bytes %d-%d/%d", have, r.SizeBytes-1, r.SizeBytes) {
					t.Fatalf("from %d: %s, %s", have, res.Status, res.Header.Get("Content-Range"))
				}
				n, err := io.CopyN(hash, res.Body, min(60<<20, r.SizeBytes-have))
				must(t, err)
				have += n
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapInuse)
				must(t, res.Body.Close()) // before the end of the answer
			}
			if got := hex.EncodeToString(hash.Sum(nil)); got != r.SHA256 || cuts != 4 {
				t.Errorf("after %d connections the content is %s, want %s", cuts, got, r.SHA256)
			}
			t.Logf("%d connections; the heap grew by %d KB", cuts, (int64(most)-int64(before.HeapInuse))>>10)
			if grown := int64(most) - int64(before.HeapInuse); grown > 16<<20 {
				t.Errorf("the heap grew by %d MB", grown>>20)
			}
		})
	}
}

func TestDownload_StreamsInConstantMemory(t *testing.T) {
	const size = 200 << 20
	a := newReleasesAPI(t)
	r, _ := a.publish("156.0.8078.79", "x86_64", size)
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	request, err := http.NewRequestWithContext(t.Context(), "GET", a.url+"/v1/chromium/releases/"+build, nil)
	must(t, err)
	request.Header.Set("X-API-Key", "good")
	res, err := a.client.Do(request)
	must(t, err)
	defer res.Body.Close()
	hash := sha256.New()
	var most uint64
	for read := int64(0); read < r.SizeBytes; {
		n, err := io.CopyN(hash, res.Body, min(16<<20, r.SizeBytes-read))
		must(t, err)
		read += n
		runtime.ReadMemStats(&now)
		most = max(most, now.HeapInuse)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != r.SHA256 {
		t.Error("the content is not the same")
	}
	if allocated := now.TotalAlloc - before.TotalAlloc; allocated > 8<<20 {
		t.Errorf("%d MB were allocated for it", allocated>>20)
	}
	if grown := int64(most) - int64(before.HeapInuse); grown > 8<<20 {
		t.Errorf("the heap grew by %d MB", grown>>20)
	}
}
