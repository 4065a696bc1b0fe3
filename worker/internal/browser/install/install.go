// Package install installs and removes browser builds from the cloud's catalog. It
// downloads, verifies, unpacks and test-runs a build before it is listed.
//
// A directory of builds:
//
//	<full version>/   one complete, tested build
//	.install/         the lock, partial downloads and builds being installed
//
// Builds being installed are nested too deep below .install to be found as builds.
package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Release is a build in the catalog.
type Release struct {
	Version   string // four numbers
	Major     int
	Channel   string
	OS, Arch  string
	SizeBytes int64  // of the archive
	SHA256    string // of the archive, hexadecimal
}

// Source provides builds.
type Source interface {
	// Releases lists the builds for a system and processor, highest version first, of
	// one major version unless that is 0.
	Releases(ctx context.Context, system, arch string, major int) ([]Release, error)
	// Open returns the archive from a byte on. begin is where the content begins: at
	// offset or, if the source does not support ranges, at 0. Errors: ErrChanged if
	// the archive differs from the release, ErrOutOfRange if it has no such byte,
	// ErrPermanent if a retry cannot succeed.
	Open(ctx context.Context, r Release, offset int64) (content io.ReadCloser, begin int64, err error)
}

// Canary tests a build before it is listed.
type Canary interface {
	// Try launches the executable headless, waits for its first answer, ends it, and
	// returns the version that it reports.
	Try(ctx context.Context, executable, scratch string) (version string, err error)
}

// Errors of a Source.
var (
	ErrChanged    = errors.New("the archive was replaced by another one: retry the install")
	ErrOutOfRange = errors.New("the archive is shorter than its catalog entry or than the partial download")
	ErrPermanent  = errors.New("permanent error")
)

// ErrInUse means that a browser of the build is running.
var ErrInUse = errors.New("a browser of this build is running")

// Installer installs builds into Dir and removes them. Dir and, to install,
// Source and Canary are required.
type Installer struct {
	Dir    string
	Source Source
	Canary Canary
	Limits Limits                           // of the unpacked contents; DefaultLimits for zero fields
	Free   func(dir string) (int64, error)  // returns the free disk space in bytes; by default that of the file system
	Pause  time.Duration                    // before the first retry of a download, then longer; half a second by default
	Notify func(format string, args ...any) // called for each step; may be nil

	Meter func(label string, done, total int64) Meter // shows the progress of a download; may be nil
}

// Meter shows the progress of a download.
type Meter interface {
	io.Writer           // counts bytes
	Restart(done int64) // resets the count
	End()
}

// Platform returns this machine's system and architecture as the catalog names
// them.
func Platform() (system, arch string) {
	archs := map[string]string{"amd64": "x86_64"}
	if arch = archs[runtime.GOARCH]; arch == "" {
		arch = runtime.GOARCH
	}
	return runtime.GOOS, arch
}

// Install installs a full version, or the newest release of a major version. It
// returns the release and whether it was newly installed. If it fails or ctx
// ends, nothing is listed; the partial download is kept for the next attempt.
func (i *Installer) Install(ctx context.Context, version string) (installed Release, fresh bool, err error) {
	request, err := parseVersion(version)
	if err != nil {
		return Release{}, false, err
	}
	unlock, err := i.lock(ctx)
	if err != nil {
		return Release{}, false, err
	}
	defer unlock()
	for again := false; ; again = true {
		r, err := i.resolve(ctx, request)
		if err != nil {
			return Release{}, false, err
		}
		if _, err := os.Stat(i.versionDir(r.Version)); err == nil {
			return r, false, nil
		}
		err = i.install(ctx, r)
		if errors.Is(err, ErrChanged) && !again {
			i.notify("The archive of %s was replaced in the catalog: starting over", r.Version)
			continue
		}
		if err != nil {
			return Release{}, false, fmt.Errorf("install %s: %w", r.Version, err)
		}
		return r, true, nil
	}
}

// resolve finds the release in the catalog.
func (i *Installer) resolve(ctx context.Context, request versionRequest) (Release, error) {
	system, arch := Platform()
	offered, err := i.Source.Releases(ctx, system, arch, request.major)
	if err != nil {
		return Release{}, err
	}
	for _, r := range offered {
		if request.full != "" && r.Version != request.full {
			continue
		}
		return r, r.validate()
	}
	return Release{}, fmt.Errorf("the catalog has no browser %s for %s %s", request, system, arch)
}

// install installs a release. The caller holds the lock.
func (i *Installer) install(ctx context.Context, r Release) error {
	if err := i.sweep(); err != nil {
		return err
	}
	archive, err := i.download(ctx, r)
	if err != nil {
		return err
	}
	i.notify("Unpacking")
	making := i.workPath("unpack", r.Version)
	defer os.RemoveAll(making)
	executable, err := i.unpack(ctx, archive, making)
	if err != nil {
		os.Remove(archive)
		return err
	}
	i.notify("Testing")
	scratch := i.workPath("canary")
	defer os.RemoveAll(scratch)
	reported, err := i.Canary.Try(ctx, executable, scratch)
	if err != nil {
		return fmt.Errorf("the build does not run here: %w", err)
	}
	if reported != r.Version {
		return fmt.Errorf("the build reports version %s", reported)
	}
	if err := syncTo(i.Dir, making, i.versionDir(r.Version)); err != nil {
		return err
	}
	os.Remove(archive)
	return nil
}

// syncTo writes a directory's files to disk and renames it.
func syncTo(parent, source, target string) error {
	dir, err := os.Open(parent)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return fmt.Errorf("write to the disk: %w", err)
	}
	if err := os.Rename(source, target); err != nil {
		return err
	}
	return dir.Sync()
}

// partialMaxAge is how long a partial download is kept.
const partialMaxAge = 7 * 24 * time.Hour

// sweep removes the leftovers of interrupted installs, except for recent
// downloads.
func (i *Installer) sweep() error {
	for _, dir := range []string{i.workPath("unpack"), i.workPath("canary"), i.workPath("removed")} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove leftovers of an earlier install: %w", err)
		}
	}
	parts, _ := filepath.Glob(i.workPath("*" + partSuffix))
	for _, part := range parts {
		if info, err := os.Stat(part); err == nil && time.Since(info.ModTime()) > partialMaxAge {
			os.Remove(part)
		}
	}
	return nil
}

func (i *Installer) versionDir(version string) string { return filepath.Join(i.Dir, version) }

func (i *Installer) workPath(parts ...string) string {
	return filepath.Join(append([]string{i.Dir, ".install"}, parts...)...)
}

func (i *Installer) notify(format string, args ...any) {
	if i.Notify != nil {
		i.Notify(format, args...)
	}
}

// lockPoll is the time between attempts to take a held lock.
const lockPoll = 100 * time.Millisecond

// lock waits until no other install or removal is in progress in Dir.
func (i *Installer) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(i.workPath(), 0o755); err != nil {
		return nil, fmt.Errorf("create the directory of builds: %w", err)
	}
	file, err := os.OpenFile(i.workPath("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the directory of builds: %w", err)
	}
	for waiting := false; ; waiting = true {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			file.Close()
			return nil, fmt.Errorf("lock the directory of builds: %w", err)
		}
		if !waiting {
			i.notify("Waiting for another install in %s", i.Dir)
		}
		select {
		case <-time.After(lockPoll):
		case <-ctx.Done():
			file.Close()
			return nil, ctx.Err()
		}
	}
}

// Installed lists the versions in Dir.
func (i *Installer) Installed() ([]string, error) {
	entries, err := os.ReadDir(i.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var versions []string
	for _, e := range entries {
		if e.IsDir() && fullVersion().MatchString(e.Name()) {
			versions = append(versions, e.Name())
		}
	}
	return versions, nil
}
