package install_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser/install"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// largeArchive returns an archive of about a megabyte.
func largeArchive(t *testing.T) []byte {
	return archive(t, program("chrome"), file("data", randomContent(1<<20)))
}

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func TestInstall_ResumesCutDownload(t *testing.T) {
	r := newFixture(t)
	content := largeArchive(t)
	r.publish(content)
	r.cloud.Intercept(cloudtest.CutAfter(1000), cloudtest.CutAfter(200_000), cloudtest.CutAfter(1),
		cloudtest.AnswerWith(cloudtest.Failure(fault.Unavailable, "not now")), cloudtest.AnswerWith(cloudtest.Reset), cloudtest.CutAfter(300_000))
	r.install(t)
	if got := read(t, filepath.Join(r.Dir, version, "data")); got != randomContent(1<<20) {
		t.Error("the content is not the same")
	}
	downloads := r.cloud.Downloads()
	for i, want := range []string{"", "bytes=1000-", "bytes=201000-", "bytes=201001-", "bytes=201001-", "bytes=201001-", "bytes=501001-"} {
		if got := downloads[i].Get("Range"); got != want {
			t.Errorf("request %d has Range %q, want %q", i, got, want)
		}
		if want != "" && downloads[i].Get("If-Range") != `"`+sumOf(content)+`"` {
			t.Errorf("request %d has If-Range %q", i, downloads[i].Get("If-Range"))
		}
	}
}

func TestInstall_ResumesAfterCancel(t *testing.T) {
	r := newFixture(t)
	r.publish(largeArchive(t))
	ctx, cancel := context.WithCancel(t.Context())
	r.cloud.Intercept(cloudtest.CutAfter(500_000), cloudtest.AnswerWith(func(_ http.ResponseWriter, req *http.Request) {
		cancel()
		<-req.Context().Done()
	}))
	if _, _, err := r.Install(ctx, version); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	r.assertNotInstalled(t)
	if parts := r.partialFiles(t); len(parts) != 1 {
		t.Fatalf("kept %v", parts)
	}
	r.install(t)
	downloads := r.cloud.Downloads()
	if got := downloads[len(downloads)-1].Get("Range"); got != "bytes=500000-" {
		t.Errorf("the next request has Range %q", got)
	}
}

func TestInstall_ReusesCompleteDownload(t *testing.T) {
	r := newFixture(t)
	r.publish(largeArchive(t))
	r.canary.err = errors.New("on purpose")
	if _, _, err := r.Install(t.Context(), version); err == nil || !strings.Contains(err.Error(), "does not run here: on purpose") {
		t.Fatalf("error %v", err)
	}
	r.assertNotInstalled(t)
	r.canary.err = nil
	r.install(t)
	if n := len(r.cloud.Downloads()); n != 1 {
		t.Errorf("%d downloads", n)
	}
}

func TestInstall_RestartsWithoutRangeSupport(t *testing.T) {
	r := newFixture(t)
	r.publish(largeArchive(t))
	r.cloud.Intercept(cloudtest.CutAfter(400_000), cloudtest.WithoutRanges)
	r.install(t)
	if n := len(r.cloud.Downloads()); n != 2 {
		t.Errorf("%d downloads", n)
	}
}

func TestInstall_RestartsForReplacedArchive(t *testing.T) {
	r := newFixture(t)
	r.publish(largeArchive(t))
	other := archive(t, program("chrome"), file("data", "another"))
	r.cloud.Intercept(cloudtest.CutAfter(400_000), func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			r.publish(other)
			w.Header().Set("ETag", `"`+sumOf(other)+`"`)
			_, _ = w.Write(other)
		})
	})
	r.install(t)
	if got := read(t, filepath.Join(r.Dir, version, "data")); got != "another" {
		t.Error("the old archive was installed")
	}
}

func TestInstall_RefusesCatalogMismatch(t *testing.T) {
	content := archive(t, program("chrome"), file("data", randomContent(1000)))
	for name, test := range map[string]struct {
		change    func(*cloudapi.ChromiumRelease)
		intercept func(http.Handler) http.Handler
		want      string
	}{
		"a wrong checksum": {change: func(r *cloudapi.ChromiumRelease) { r.Sha256 = strings.Repeat("0", 64) },
			intercept: noChecksum, want: "its SHA-256 is"},
		"another checksum than the cloud's": {change: func(r *cloudapi.ChromiumRelease) { r.Sha256 = strings.Repeat("0", 64) },
			want: "replaced by another"},
		"a size that is too large": {change: func(r *cloudapi.ChromiumRelease) { r.SizeBytes += 10 }, want: "the archive has"},
		"a size that is too small": {change: func(r *cloudapi.ChromiumRelease) { r.SizeBytes -= 10 }, want: "the archive has"},
		"more than announced": {change: func(r *cloudapi.ChromiumRelease) { r.SizeBytes -= 10 }, intercept: chunked,
			want: "it is longer than"},
		"less than announced, at every attempt": {change: func(r *cloudapi.ChromiumRelease) { r.SizeBytes += 10 }, intercept: chunked,
			want: "the archive is shorter"},
		"an invalid version": {change: func(r *cloudapi.ChromiumRelease) { r.Version = "153.0.0.0.1" }, want: "has no browser"},
		"a refused key": {intercept: cloudtest.AnswerWith(cloudtest.Failure(fault.Unauthenticated, "The key is invalid.")),
			want: "the cloud refuses SVC_KEY: The key is invalid."},
		"a redirect": {intercept: cloudtest.AnswerWith(func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, "http://127.0.0.1:1/", http.StatusFound)
		}), want: "the cloud answered 302"},
		"gone": {intercept: cloudtest.AnswerWith(cloudtest.Failure(fault.NotFound, "gone")), want: "no longer in the catalog"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			system, arch := install.Platform()
			r.cloud.Publish(version, system, arch, content, func(c *cloudapi.ChromiumRelease) {
				if test.change != nil {
					test.change(c)
				}
			})
			for range 10 {
				if test.intercept != nil {
					r.cloud.Intercept(test.intercept)
				}
			}
			_, _, err := r.Install(t.Context(), version)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one about %q", err, test.want)
			}
			r.assertNotInstalled(t)
		})
	}
}

// noChecksum serves an archive without its checksum headers.
func noChecksum(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(checksumStripper{w}, r) })
}

type checksumStripper struct{ http.ResponseWriter }

func (m checksumStripper) WriteHeader(status int) {
	m.Header().Del("ETag")
	m.Header().Del("X-Checksum-Sha256")
	m.ResponseWriter.WriteHeader(status)
}

// chunked serves an archive without its length.
func chunked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(lengthStripper{w}, r)
		_ = http.NewResponseController(w).Flush()
	})
}

type lengthStripper struct{ http.ResponseWriter }

func (l lengthStripper) WriteHeader(status int) {
	l.Header().Del("Content-Length")
	l.ResponseWriter.WriteHeader(status)
}

func TestInstall_ResolvesMajorToNewestBuild(t *testing.T) {
	r := newFixture(t)
	system, arch := install.Platform()
	content := archive(t, program("chrome"))
	r.cloud.Publish("152.0.1.1", system, arch, content)
	r.cloud.Publish("153.0.1.1", system, arch, content)
	r.publish(content)
	r.cloud.Publish("153.9.9.9", "windows", arch, content)
	got, _, err := r.Install(t.Context(), "153")
	if err != nil || got.Version != version {
		t.Errorf("installed %+v (%v)", got, err)
	}
	again, fresh, err := r.Install(t.Context(), "153")
	if err != nil || fresh || again.Version != version {
		t.Errorf("again: %+v, fresh %v (%v)", again, fresh, err)
	}
	r.canary.version = "152.0.1.1"
	if _, _, err := r.Install(t.Context(), "152.0.1.1"); err != nil {
		t.Errorf("an older version from a later page: %v", err)
	}
	for _, bad := range []string{"", "x", "0", "153.0", "../153.0.1.1", "154"} {
		if _, _, err := r.Install(t.Context(), bad); err == nil {
			t.Errorf("%q was installed", bad)
		}
	}
}

func TestInstall_RefusesWrongVersion(t *testing.T) {
	r := newFixture(t)
	r.publish(archive(t, program("chrome")))
	r.canary.version = "152.0.1.1"
	if _, _, err := r.Install(t.Context(), version); err == nil || !strings.Contains(err.Error(), "the build reports version 152.0.1.1") {
		t.Errorf("error %v", err)
	}
	r.assertNotInstalled(t)
}

func TestInstall_ChecksDiskSpaceFirst(t *testing.T) {
	r := newFixture(t)
	content := archive(t, program("chrome"), file("data", strings.Repeat("compressible", 100)+randomContent(1<<20)))
	r.publish(content)
	r.Free = func(string) (int64, error) { return 64 << 20, nil }
	if _, _, err := r.Install(t.Context(), version); err == nil || !strings.Contains(err.Error(), "not enough disk space") || len(r.cloud.Downloads()) > 0 {
		t.Errorf("before the download: %v, %d downloads", err, len(r.cloud.Downloads()))
	}
	r.Free = func(string) (int64, error) { return 64<<20 + int64(len(content)), nil }
	if _, _, err := r.Install(t.Context(), version); err == nil || !strings.Contains(err.Error(), "not enough disk space") || len(r.cloud.Downloads()) != 1 {
		t.Errorf("before it is unpacked: %v, %d downloads", err, len(r.cloud.Downloads()))
	}
	r.assertNotInstalled(t)
}

func TestInstall_SerializesInstalls(t *testing.T) {
	r := newFixture(t)
	r.publish(archive(t, program("chrome")))
	waiting, second := make(chan struct{}), make(chan error, 1)
	twin := *r.Installer
	twin.Notify = func(format string, _ ...any) {
		if strings.HasPrefix(format, "Waiting for another install") {
			close(waiting)
		}
	}
	r.canary.during = func(string) {
		go func() {
			_, fresh, err := twin.Install(t.Context(), version)
			if fresh {
				err = errors.New("the version was installed twice")
			}
			second <- err
		}()
		select {
		case <-waiting:
		case <-time.After(5 * time.Second):
			t.Error("the second install does not wait")
		}
	}
	r.install(t)
	if err := <-second; err != nil {
		t.Error(err)
	}
}

func TestInstall_RemovesCrashLeftovers(t *testing.T) {
	r := newFixture(t)
	r.publish(archive(t, program("chrome")))
	stale := filepath.Join(r.Dir, ".install", "unpack", "153.0.1.1")
	old := filepath.Join(r.Dir, ".install", strings.Repeat("0", 64)+".part")
	if err := os.MkdirAll(stale, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-30 * 24 * time.Hour)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	r.install(t)
	for _, path := range []string{stale, old} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("leaked %s", path)
		}
	}
}
