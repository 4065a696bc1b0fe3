package playwright

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	maxPackument = 64 << 20  // of the list of versions, in bytes
	maxArchive   = 128 << 20 // of a version, in bytes
	maxUnpacked  = 512 << 20
	maxEntries   = 20_000

	responseTimeout = 30 * time.Second
	downloadTimeout = 10 * time.Minute
)

// Registry is an npm registry.
type Registry struct {
	URL   string
	Roots *x509.CertPool // nil: those of the system
}

// release is a version that a registry has.
type release struct {
	Version
	Tarball   string
	Integrity string // as in npm: sha512-BASE64
}

// Install installs the newest patch of a version such as 1.65, or exactly one such as 1.65.1,
// below dir, and returns it. It does nothing if that is installed.
func (r Registry) Install(ctx context.Context, dir, version string) (installed Version, fresh bool, err error) {
	c, err := parse(version)
	if err != nil {
		return installed, false, err
	}
	found, err := r.find(ctx, c)
	if err != nil {
		return installed, false, err
	}
	all, err := List(dir)
	if err != nil {
		return installed, false, err
	}
	if slices.ContainsFunc(all, func(i Installed) bool { return i.Version == found.Version }) {
		return found.Version, false, nil
	}
	return found.Version, true, r.install(ctx, dir, found)
}

// find looks up the newest release that matches.
func (r Registry) find(ctx context.Context, c criterion) (found release, err error) {
	body, err := r.get(ctx, strings.TrimSuffix(r.URL, "/")+"/"+library, "application/vnd.npm.install-v1+json")
	if err != nil {
		return found, fmt.Errorf("read the versions of %s: %w", library, err)
	}
	defer body.Close()
	var packument struct {
		Versions map[string]struct {
			Dist struct{ Tarball, Integrity string }
		}
	}
	if err := json.NewDecoder(io.LimitReader(body, maxPackument)).Decode(&packument); err != nil {
		return found, fmt.Errorf("read the versions of %s: %w", library, err)
	}
	for text, content := range packument.Versions {
		number, err := parse(text)
		if err != nil || !c.matches(number.Version) { // or a pre-release
			continue
		}
		if found.Tarball == "" || number.compare(found.Version) > 0 {
			found = release{number.Version, content.Dist.Tarball, content.Dist.Integrity}
		}
	}
	if found.Tarball == "" {
		return found, fmt.Errorf("the npm registry has no %s %s", library, c)
	}
	return found, nil
}

// get requests an address of the registry.
func (r Registry) get(ctx context.Context, address, accept string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	answer, err := r.client().Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		_ = answer.Body.Close()
		return nil, fmt.Errorf("%s answered %s", request.URL.Redacted(), answer.Status)
	}
	return answer.Body, nil
}

func (r Registry) client() *http.Client {
	return &http.Client{
		Timeout: downloadTimeout,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: r.Roots}, ForceAttemptHTTP2: true, ResponseHeaderTimeout: responseTimeout,
			DisableKeepAlives: true,
		},
	}
}

// install downloads, checks and unpacks a release. What fails leaves nothing.
func (r Registry) install(ctx context.Context, dir string, found release) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("install %s: %w", found, err)
	}
	work, err := os.MkdirTemp(dir, ".install-")
	if err != nil {
		return fmt.Errorf("install %s: %w", found, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	archive, err := os.Create(filepath.Join(work, "archive"))
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := r.download(ctx, archive, found); err != nil {
		return fmt.Errorf("download %s: %w", found, err)
	}
	unpacked := filepath.Join(work, "package")
	if err := unpack(ctx, archive, unpacked); err != nil {
		return fmt.Errorf("unpack %s: %w", found, err)
	}
	if !isVersion(unpacked, found.Version) {
		return fmt.Errorf("the archive of %s does not contain it", found)
	}
	return os.Rename(unpacked, filepath.Join(dir, found.String()))
}

// download writes the archive of a release and checks its integrity.
func (r Registry) download(ctx context.Context, archive *os.File, found release) error {
	body, err := r.get(ctx, found.Tarball, "application/octet-stream")
	if err != nil {
		return err
	}
	defer body.Close()
	sum := sha512.New()
	size, err := io.Copy(io.MultiWriter(archive, sum), io.LimitReader(body, maxArchive+1))
	if err != nil {
		return err
	}
	if size > maxArchive {
		return fmt.Errorf("it is larger than %d MB", maxArchive>>20)
	}
	if want := "sha512-" + base64.StdEncoding.EncodeToString(sum.Sum(nil)); !slices.Contains(strings.Fields(found.Integrity), want) {
		return errors.New("its checksum is not that of the registry")
	}
	_, err = archive.Seek(0, io.SeekStart)
	return err
}

// unpack unpacks the files of an archive of npm, which are below one directory, into dir.
func unpack(ctx context.Context, archive io.Reader, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	content, err := gzip.NewReader(archive)
	if err != nil {
		return err
	}
	limited := &io.LimitedReader{R: content, N: maxUnpacked}
	entries := tar.NewReader(limited)
	for count := 0; ; count++ {
		entry, err := entries.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case limited.N == 0 || count == maxEntries:
			return errors.New("it is too large")
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		_, name, below := strings.Cut(entry.Name, "/")
		if entry.Typeflag == tar.TypeDir {
			continue
		}
		if !below || entry.Typeflag != tar.TypeReg || !filepath.IsLocal(name) {
			return fmt.Errorf("it contains %q, which is not a regular file below its directory", entry.Name)
		}
		if err := writeFile(root, name, entry.FileInfo().Mode(), entries); err != nil {
			return err
		}
	}
}

func writeFile(root *os.Root, name string, mode fs.FileMode, content io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644|mode&0o111)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// Remove removes an installed version: exactly one, or the only one of a minor version. Clients
// that are connected can lose their server.
func Remove(dir, version string) (removed Version, err error) {
	c, err := parse(version)
	if err != nil {
		return removed, err
	}
	all, err := List(dir)
	if err != nil {
		return removed, err
	}
	all = slices.DeleteFunc(all, func(i Installed) bool { return !c.matches(i.Version) })
	switch len(all) {
	case 0:
		return removed, fmt.Errorf("%s %s is not installed in %s", library, version, dir)
	case 1:
		return all[0].Version, os.RemoveAll(filepath.Join(dir, all[0].String()))
	}
	return removed, fmt.Errorf("several versions are installed: name one exactly, such as %s", all[0])
}
