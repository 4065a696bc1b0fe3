package catalog

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/cloud/internal/browsers/catalog/catalogtest"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

type fixture struct {
	*Service
	t     *testing.T
	dir   string // directory of the store
	clock *clock.Fake
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "releases")
	return newFixtureIn(t, "file://"+dir, dir)
}

func newFixtureIn(t *testing.T, storeURL, dir string) *fixture {
	t.Helper()
	store, err := OpenStore(t.Context(), storeURL, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	fake := clock.NewFake(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	return &fixture{&Service{DB: dbtest.New(t), Store: store, Clock: fake}, t, dir, fake}
}

// inEachStore runs the test with a directory, and with a real S3 server.
func inEachStore(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Run("directory", func(t *testing.T) { test(t, newFixture(t)) })
	t.Run("S3", func(t *testing.T) {
		url, dir := catalogtest.S3(t)
		test(t, newFixtureIn(t, url, dir))
	})
}

// archive returns a zip file with these entries. The content of an entry is its name.
func (f *fixture) archive(names ...string) *os.File {
	f.t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range names {
		header := &zip.FileHeader{Name: name}
		mode := fs.FileMode(0o755)
		if strings.HasPrefix(filepath.Base(name), "dev") {
			mode |= fs.ModeDevice
		}
		header.SetMode(mode)
		entry, err := w.CreateHeader(header)
		if err == nil {
			_, err = io.WriteString(entry, name)
		}
		if err != nil {
			f.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		f.t.Fatal(err)
	}
	return f.file(out.Bytes())
}

func (f *fixture) file(content []byte) *os.File {
	f.t.Helper()
	file, err := os.CreateTemp(f.t.TempDir(), "*.zip")
	if err == nil {
		_, err = file.Write(content)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = file.Close() })
	return file
}

func (f *fixture) publish(version, system, arch string, names ...string) (Release, error) {
	f.t.Helper()
	f.clock.Advance(time.Minute)
	return f.Publish(f.t.Context(), Publication{Build: Build{version, system, arch}, Channel: "stable", File: f.archive(names...)})
}

func (f *fixture) must(r Release, err error) Release {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (f *fixture) objects() (found []string) {
	f.t.Helper()
	err := filepath.WalkDir(f.dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			name, _ := filepath.Rel(f.dir, path)
			found = append(found, name)
		}
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return found
}

func TestPublish_FindReadRemove(t *testing.T) {
	inEachStore(t, testPublishFindReadRemove)
}

func testPublishFindReadRemove(t *testing.T, f *fixture) {
	counted := &bytes.Buffer{}
	file := f.archive("a/chrome", "a/icudtl.dat")
	b := Build{"153.0.7727.15", "linux", "x86_64"}
	r := f.must(f.Publish(t.Context(), Publication{Build: b, Channel: "beta", File: file, Progress: counted}))
	content, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	if r.Major != 153 || r.Channel != "beta" || r.SizeBytes != int64(len(content)) || !r.PublishedAt.Equal(f.clock.Now()) || !bytes.Equal(counted.Bytes(), content) {
		t.Errorf("published %+v, counted %d", r, counted.Len())
	}
	if diff := cmp.Diff(r, f.must(f.Find(t.Context(), b))); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	reader, err := f.Open(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(reader)
	_ = reader.Close()
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("read %d bytes (%v)", len(got), err)
	}
	f.must(f.Remove(t.Context(), b))
	if _, err := f.Find(t.Context(), b); !fault.Is(err, fault.NotFound) || len(f.objects()) > 0 {
		t.Errorf("after the removal: %v, %v", err, f.objects())
	}
	if _, err := f.Remove(t.Context(), b); !fault.Is(err, fault.NotFound) {
		t.Errorf("removed twice: %v", err)
	}
}

func TestPublish_OneArchivePerBuild(t *testing.T) { inEachStore(t, testOneArchivePerBuild) }

func testOneArchivePerBuild(t *testing.T, f *fixture) {
	first := f.must(f.publish("153.0.7727.15", "linux", "x86_64", "chrome"))
	if diff := cmp.Diff(first, f.must(f.publish("153.0.7727.15", "linux", "x86_64", "chrome"))); diff != "" {
		t.Errorf("published again (-want +got):\n%s", diff)
	}
	if _, err := f.publish("153.0.7727.15", "linux", "x86_64", "chrome", "more"); !fault.Is(err, fault.Conflict) {
		t.Errorf("another archive: %v", err)
	}
	f.must(f.publish("153.0.7727.15", "linux", "arm64", "chrome"))
	if n := len(f.objects()); n != 2 {
		t.Errorf("%d objects: %v", n, f.objects())
	}
}

func TestPublish_RefusesInvalidBuild(t *testing.T) {
	f := newFixture(t)
	for name, test := range map[string]struct {
		version, system, arch string
		names                 []string
		said                  string
	}{
		"not a full version":    {"153", "linux", "x86_64", []string{"chrome"}, "four numbers"},
		"a version with a path": {"../153.0.1.1", "linux", "x86_64", []string{"chrome"}, "four numbers"},
		"an unknown system":     {"153.0.1.1", "beos", "x86_64", []string{"chrome"}, "operating system"},
		"an unknown processor":  {"153.0.1.1", "linux", "z80", []string{"chrome"}, "processor"},
		"no browser":            {"153.0.1.1", "linux", "x86_64", []string{"readme"}, "contains no browser"},
		"a browser too deep":    {"153.0.1.1", "linux", "x86_64", []string{"a/b/c/chrome"}, "contains no browser"},
		"two browsers":          {"153.0.1.1", "linux", "x86_64", []string{"a/chrome", "b/chromium"}, "more than one"},
		"a name that leaves":    {"153.0.1.1", "linux", "x86_64", []string{"chrome", "../evil"}, "not a path inside"},
		"a name twice":          {"153.0.1.1", "linux", "x86_64", []string{"chrome", "a", "a"}, "twice"},
		"a device":              {"153.0.1.1", "linux", "x86_64", []string{"chrome", "device"}, "is not a file, directory or link"},
	} {
		if _, err := f.publish(test.version, test.system, test.arch, test.names...); !fault.Is(err, fault.Validation) || !strings.Contains(err.Error(), test.said) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := f.Publish(t.Context(), Publication{Build: Build{"153.0.1.1", "linux", "x86_64"}, Channel: "stable", File: f.file([]byte("text"))})
	if !fault.Is(err, fault.Validation) || !strings.Contains(err.Error(), "not a zip archive") {
		t.Errorf("not a zip file: %v", err)
	}
	if len(f.objects()) > 0 {
		t.Errorf("stored %v", f.objects())
	}
}

func TestPublish_RefusesFileThatChanges(t *testing.T) {
	f := newFixture(t)
	file := f.archive("chrome")
	spoil := writerFunc(func(b []byte) (int, error) { return len(b), nil })
	p := Publication{Build: Build{"153.0.1.1", "linux", "x86_64"}, Channel: "stable", File: file, Progress: spoil}
	r := Release{Build: p.Build, SHA256: strings.Repeat("0", 64), ObjectKey: "x"}
	if err := f.store(t.Context(), p, r); err == nil || !strings.Contains(err.Error(), "the file changed") {
		t.Errorf("error %v", err)
	}
	if len(f.objects()) > 0 {
		t.Errorf("stored %v", f.objects())
	}
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(b []byte) (int, error) { return w(b) }

func TestList_FiltersSortsAndPages(t *testing.T) {
	f := newFixture(t)
	for _, b := range []Build{{"153.0.9.1", "linux", "x86_64"}, {"153.0.10.1", "linux", "x86_64"}, {"99.0.1.1", "linux", "x86_64"},
		{"153.0.10.1", "linux", "arm64"}, {"153.0.10.1", "windows", "x86_64"}} {
		f.must(f.publish(b.Version, b.OS, b.Arch, "chrome", b.Version))
	}
	byVersion := page.Request{Page: 1, Limit: 10, SortBy: "version", Desc: true}
	for name, test := range map[string]struct {
		filter Filter
		req    page.Request
		want   string
		total  int
	}{
		"by version":    {Filter{OS: new("linux"), Arch: new("x86_64")}, byVersion, "153.0.10.1 153.0.9.1 99.0.1.1", 3},
		"of a major":    {Filter{OS: new("linux"), Arch: new("x86_64"), Major: new(int32(99))}, byVersion, "99.0.1.1", 1},
		"all by time":   {Filter{}, page.Request{Page: 1, Limit: 3, SortBy: "publishedAt"}, "153.0.9.1 153.0.10.1 99.0.1.1", 5},
		"a second page": {Filter{}, page.Request{Page: 2, Limit: 4, SortBy: "publishedAt"}, "153.0.10.1", 5},
		"none":          {Filter{OS: new("macos")}, byVersion, "", 0},
	} {
		found, err := f.List(t.Context(), test.filter, test.req)
		var versions []string
		for _, r := range found.Items {
			versions = append(versions, r.Version)
		}
		if got := strings.Join(versions, " "); err != nil || got != test.want || found.Total != test.total {
			t.Errorf("%s: %s of %d (%v)", name, got, found.Total, err)
		}
	}
}

func TestOpen_RefusesMissingOrDamagedArchive(t *testing.T) {
	inEachStore(t, testMissingOrDamagedArchive)
}

func testMissingOrDamagedArchive(t *testing.T, f *fixture) {
	r := f.must(f.publish("153.0.1.1", "linux", "x86_64", "chrome"))
	path := filepath.Join(f.dir, f.objects()[0])
	if err := os.Truncate(path, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Open(t.Context(), r); !fault.Is(err, fault.Unavailable) {
		t.Errorf("damaged archive: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Open(t.Context(), r); err == nil || errors.Is(err, fs.ErrNotExist) && fault.From(err).Kind != fault.Internal {
		t.Errorf("missing archive: %v", err)
	}
}

func TestOpenStore_ByURL(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-central-1")
	t.Setenv("AWS_ACCESS_KEY_ID", "x")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "y")
	store, err := OpenStore(t.Context(), "s3://bucket?endpoint=http://127.0.0.1:1&use_path_style=true", "")
	if err != nil {
		t.Fatalf("s3: %v", err)
	}
	_ = store.Close()
	for _, address := range []string{"http://x/y", "file://relative", "azblob://x", "::", "mem://"} {
		if _, err := OpenStore(t.Context(), address, ""); err == nil || !strings.Contains(err.Error(), "RELEASES_URL") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
