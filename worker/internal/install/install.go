// Package install gets browser builds from the cloud's catalog: it downloads,
// verifies, unpacks and tries one before it is there under its version, and
// removes those that are no longer wanted.
//
// A directory of builds:
//
//	<full version>/   one build, whole and tried
//	.install/         ours: the lock, downloads that broke off, builds in the making
//
// What is in the making lies too deep below .install to be taken for a build.
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

// Release is a build that the catalog offers.
type Release struct {
	Version   string // four numbers
	Major     int
	Channel   string
	OS, Arch  string
	SizeBytes int64  // of the archive
	SHA256    string // of the archive, hexadecimal
}

// Source is where builds come from.
type Source interface {
	// Releases lists the builds for a system and processor, the highest version
	// first; of one major version unless that is 0.
	Releases(ctx context.Context, system, arch string, major int) ([]Release, error)
	// Open returns the archive from that byte on. The content may begin earlier
	// than asked, at 0; the result says where. ErrChanged means that the archive
	// is no longer that of the release, ErrOutOfRange that it has no such byte. An
	// error that is Permanent won't go away by asking again.
	Open(ctx context.Context, r Release, from int64) (content io.ReadCloser, begin int64, err error)
}

// Canary tries a build before it is listed.
type Canary interface {
	// Try launches the executable without a window, waits for its first answer
	// and ends it. It returns the version that it says it has.
	Try(ctx context.Context, executable, scratch string) (version string, err error)
}

// What a Source tells with its errors.
var (
	ErrChanged    = errors.New("the archive was replaced by another one")
	ErrOutOfRange = errors.New("the archive is shorter than what the catalog says, or than what is here of it")
	ErrPermanent  = errors.New("asking again is of no use")
)

// ErrInUse means that a browser of the build runs.
var ErrInUse = errors.New("a browser of this build is running")

// Installer installs builds into Dir and removes them. Dir and, to install,
// Source and Canary are required.
type Installer struct {
	Dir    string
	Source Source
	Canary Canary
	Limits Limits                                      // of what is unpacked; zero ones are DefaultLimits'
	Free   func(dir string) (int64, error)             // bytes of disk space; the file system's when nil
	Pause  time.Duration                               // before a download is taken up again, growing; half a second when 0
	Notify func(format string, args ...any)            // told of each step; may be nil
	Meter  func(label string, done, total int64) Meter // shows a download; may be nil
}

// Meter shows how far a download has come.
type Meter interface {
	io.Writer           // counts bytes
	Restart(done int64) // goes back to so many
	End()
}

// Platform is the system and processor of this machine, in the catalog's words.
func Platform() (system, arch string) {
	archs := map[string]string{"amd64": "x86_64"}
	if arch = archs[runtime.GOARCH]; arch == "" {
		arch = runtime.GOARCH
	}
	return runtime.GOOS, arch
}

// Install installs a version, a major (then its newest release) or a full one,
// and returns what is installed and whether it was before. When it fails, or
// ctx ends, nothing of it is listed; what was downloaded is kept for the next
// time.
func (i *Installer) Install(ctx context.Context, version string) (installed Release, fresh bool, err error) {
	wanted, err := parseVersion(version)
	if err != nil {
		return Release{}, false, err
	}
	unlock, err := i.lock(ctx)
	if err != nil {
		return Release{}, false, err
	}
	defer unlock()
	for again := false; ; again = true {
		r, err := i.resolve(ctx, wanted)
		if err != nil {
			return Release{}, false, err
		}
		if _, err := os.Stat(i.versionDir(r.Version)); err == nil {
			return r, false, nil
		}
		err = i.install(ctx, r)
		if errors.Is(err, ErrChanged) && !again {
			i.notify("The catalog has another archive for %s by now: starting over", r.Version)
			continue
		}
		if err != nil {
			return Release{}, false, fmt.Errorf("install %s: %w", r.Version, err)
		}
		return r, true, nil
	}
}

// resolve finds the release in the catalog.
func (i *Installer) resolve(ctx context.Context, wanted versionRequest) (Release, error) {
	system, arch := Platform()
	offered, err := i.Source.Releases(ctx, system, arch, wanted.major)
	if err != nil {
		return Release{}, err
	}
	for _, r := range offered {
		if wanted.full != "" && r.Version != wanted.full {
			continue
		}
		return r, r.validate()
	}
	return Release{}, fmt.Errorf("the catalog has no browser %s for %s %s", wanted, system, arch)
}

// install does the work, under the lock.
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
	i.notify("Trying it")
	scratch := i.workPath("canary")
	defer os.RemoveAll(scratch)
	said, err := i.Canary.Try(ctx, executable, scratch)
	if err != nil {
		return fmt.Errorf("it does not run here: %w", err)
	}
	if said != r.Version {
		return fmt.Errorf("it says that it is version %s", said)
	}
	if err := syncTo(i.Dir, making, i.versionDir(r.Version)); err != nil {
		return err
	}
	os.Remove(archive)
	return nil
}

// syncTo renames a directory once its files are safe on the disk.
func syncTo(parent, from, to string) error {
	dir, err := os.Open(parent)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return fmt.Errorf("write to the disk: %w", err)
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return dir.Sync()
}

// partialMaxAge is how long a download that broke off waits to be taken up again.
const partialMaxAge = 7 * 24 * time.Hour

// sweep removes what an interrupted install left, but for recent downloads.
func (i *Installer) sweep() error {
	for _, dir := range []string{i.workPath("unpack"), i.workPath("canary"), i.workPath("removed")} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove what an earlier install left: %w", err)
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

// lockPoll is how often a taken lock is tried again.
const lockPoll = 100 * time.Millisecond

// lock waits until no other install or removal works in Dir.
func (i *Installer) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(i.workPath(), 0o755); err != nil {
		return nil, fmt.Errorf("make the directory of builds: %w", err)
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
