package cloudtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/shared/testenv"
)

// Catalog is the catalog of a cloud, with archives in memory. It is safe for
// concurrent use.
type Catalog struct {
	cloudapi.StrictServerInterface // nil: the worker calls no other operation

	URL string

	mu           sync.Mutex
	releases     []cloudapi.ChromiumRelease // the newest first
	archives     map[string][]byte          // by version
	downloads    []http.Header              // of the requests
	interceptors []func(next http.Handler) http.Handler
}

// NewCatalog starts a cloud that serves a catalog; it ends with the test.
func NewCatalog(t testing.TB) *Catalog {
	t.Helper()
	c := &Catalog{archives: map[string][]byte{}}
	document := contracttest.Load(t, "cloud.yaml")
	authenticate := func(r *http.Request) (context.Context, error) {
		if r.Header.Get("X-API-Key") != Key {
			return nil, fault.New(fault.Unauthenticated, "The organization key is invalid.")
		}
		return r.Context(), nil
	}
	guard, err := oapi.NewGuard(document.Document, oapi.Options{Authenticators: map[string]oapi.Authenticator{
		"organizationKey": authenticate, "dashboardSession": authenticate, "dashboardBearer": authenticate,
	}})
	if err != nil {
		t.Fatal(err)
	}
	e := httpd.New(httpd.Options{Logger: slog.New(slog.DiscardHandler)})
	e.Use(guard.Middleware())
	cloudapi.RegisterHandlers(e, cloudapi.NewStrictHandler(c, nil))
	e.GET("/v1/chromium/releases/:version/download", c.download)
	server := testenv.Serve(t, e)
	c.URL = server.URL
	return c
}

// Publish adds an archive, or replaces the archive of the same version. The functions
// change its catalog entry.
func (c *Catalog) Publish(version, system, arch string, archive []byte, change ...func(*cloudapi.ChromiumRelease)) {
	sum := sha256.Sum256(archive)
	major, _, _ := strings.Cut(version, ".")
	number, err := strconv.ParseInt(major, 10, 32)
	if err != nil {
		panic(err) // a mistake in the test
	}
	r := cloudapi.ChromiumRelease{
		Version: version, Major: int32(number), Channel: cloudapi.Stable, Os: cloudapi.BuildOs(system), Arch: cloudapi.BuildArch(arch),
		SizeBytes: int64(len(archive)), Sha256: hex.EncodeToString(sum[:]), PublishedAt: time.Now().UTC(),
		DownloadUrl: "http://elsewhere.invalid/archive.zip",
	}
	for _, apply := range change {
		apply(&r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.archives[version] == nil {
		c.releases = append([]cloudapi.ChromiumRelease{r}, c.releases...)
	}
	for i := range c.releases {
		if c.releases[i].Version == version {
			c.releases[i] = r
		}
	}
	c.archives[version] = archive
}

// Intercept wraps the next downloads with these handlers, one each, in order.
func (c *Catalog) Intercept(ways ...func(next http.Handler) http.Handler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interceptors = append(c.interceptors, ways...)
}

// Downloads returns the headers of the requests for archives, in order.
func (c *Catalog) Downloads() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]http.Header{}, c.downloads...)
}

// ListChromiumReleases lists the releases, filtered, with one release per page, so
// that clients must request several pages.
func (c *Catalog) ListChromiumReleases(_ context.Context, r cloudapi.ListChromiumReleasesRequestObject) (cloudapi.ListChromiumReleasesResponseObject, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var fits []cloudapi.ChromiumRelease
	for _, release := range c.releases {
		if (r.Params.Os == nil || *r.Params.Os == release.Os) && (r.Params.Arch == nil || *r.Params.Arch == release.Arch) &&
			(r.Params.Major == nil || *r.Params.Major == release.Major) {
			fits = append(fits, release)
		}
	}
	page, list := 1, cloudapi.ChromiumReleaseList{Items: []cloudapi.ChromiumRelease{}}
	if r.Params.Page != nil {
		page = int(*r.Params.Page)
	}
	if page <= len(fits) {
		list.Items = fits[page-1 : page]
	}
	list.Pagination = sharedapi.Pagination{Page: int32(page), Limit: 1, Total: int64(len(fits)), TotalPages: int64(len(fits)),
		HasNext: page < len(fits), HasPrev: page > 1}
	return cloudapi.ListChromiumReleases200JSONResponse{Success: true, Data: list}, nil
}

func (c *Catalog) download(ctx echo.Context) error {
	c.mu.Lock()
	archive, known := c.archives[ctx.Param("version")]
	c.downloads = append(c.downloads, ctx.Request().Header.Clone())
	var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.Sum256(archive)
		w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:])+`"`)
		w.Header().Set("X-Checksum-Sha256", hex.EncodeToString(sum[:]))
		w.Header().Set("Content-Type", "application/zip")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(archive))
	})
	if len(c.interceptors) > 0 {
		handler, c.interceptors = c.interceptors[0](handler), c.interceptors[1:]
	}
	c.mu.Unlock()
	if !known {
		return fault.Missing("browser build")
	}
	handler.ServeHTTP(ctx.Response(), ctx.Request())
	return nil
}

// CutAfter sends n bytes of an archive and then closes the connection.
func CutAfter(n int) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(&truncatingWriter{ResponseWriter: w, left: n}, r)
		})
	}
}

// AnswerWith replaces the answer to a download.
func AnswerWith(answer Answer) func(http.Handler) http.Handler {
	return func(http.Handler) http.Handler { return http.HandlerFunc(answer) }
}

// WithoutRanges serves an archive without support for ranges.
func WithoutRanges(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Range")
		next.ServeHTTP(w, r)
	})
}

type truncatingWriter struct {
	http.ResponseWriter
	left int
}

func (c *truncatingWriter) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b[:min(len(b), c.left)])
	if c.left -= n; c.left == 0 {
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, err
}
