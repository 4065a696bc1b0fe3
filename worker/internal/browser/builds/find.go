package builds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/browser-svc/svc/shared/fault"
)

// FindOptions configures where to look for builds.
type FindOptions struct {
	Path    string        // an executable or wrapper to use instead of the system's (CHROMIUM_PATH)
	Dirs    []string      // directories that hold builds, one in each directory below
	UID     int           // run `--version` as this user when the worker is root; 65534 by default
	Timeout time.Duration // for each answer to `--version`; a minute by default
	Log     *slog.Logger  // logs skipped builds
}

// newBuildWait is how long after its discovery Find waits for the version of an executable,
// if another build is usable.
const newBuildWait = 5 * time.Second

// Finder lists installed builds and caches their versions. It is safe for concurrent use.
type Finder struct {
	opts         FindOptions
	versions     *versionCache
	newBuildWait time.Duration
	unreadable   sync.Map // directories that could not be listed; logged once
}

// NewFinder returns a Finder with the given options.
func NewFinder(opts FindOptions) *Finder {
	if opts.UID == 0 {
		opts.UID = 65534
	}
	if opts.Timeout <= 0 {
		opts.Timeout = time.Minute // a cold disk cache reads 270 MB first
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Finder{opts: opts, versions: newVersionCache(opts), newBuildWait: newBuildWait}
}

// Names of executables, and directories of packages.
var (
	systemNames = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "chromium-headless-shell", "chrome-headless-shell"}
	packageDirs = []string{"usr/lib/chromium", "usr/lib/chromium-browser", "usr/lib64/chromium-browser", "opt/google/chrome"}
	binaryNames = []string{"chromium", "chrome", "chromium-browser", "headless_shell", "chrome-headless-shell", "chromium-headless-shell"}
)

// ErrUnusablePath is wrapped by the error for a configured Path that is no executable Chromium.
var ErrUnusablePath = errors.New("is not a usable Chromium")

func (f *Finder) unusablePath(cause error) error {
	return fault.Wrap(errors.Join(fmt.Errorf("%s %w", f.opts.Path, ErrUnusablePath), cause), fault.Unavailable,
		"CHROMIUM_PATH is not a usable Chromium. Set it to the executable, or unset it and install the package chromium.")
}

// Find lists the builds, newest first. Each executable is listed once; a version
// that is installed twice is listed twice. An executable that does not answer
// --version is skipped, logged, and not queried again until its file changes. Find
// waits at most newBuildWait for a new executable, longer only if no build is usable
// without it. The error is Unavailable and wraps ErrUnusablePath if a configured Path
// yields no build.
func (f *Finder) Find(ctx context.Context) ([]Build, error) {
	paths, configured := f.candidates(), realBinary(f.opts.Path)
	queries := f.versions.queryAll(paths)
	isUsable := func(b Build) bool { return f.opts.Path == "" || b.Path == configured }
	var builds []Build
	for _, limit := range []time.Duration{f.newBuildWait, 0} {
		if err := awaitQueries(ctx, queries, limit); err != nil {
			return nil, fmt.Errorf("find builds: %w", err)
		}
		if builds = listBuilds(paths, queries); slices.ContainsFunc(builds, isUsable) {
			break
		}
	}
	if f.opts.Path != "" && !slices.ContainsFunc(builds, isUsable) {
		if q := queries[configured]; q != nil && q.err != nil {
			return nil, f.unusablePath(q.err)
		}
		return nil, f.unusablePath(nil)
	}
	return builds, nil
}

// awaitQueries waits until each query has ended or has run for the limit; 0 is no limit.
func awaitQueries(ctx context.Context, queries map[string]*versionQuery, limit time.Duration) error {
	for _, q := range queries {
		var late <-chan time.Time
		if limit > 0 {
			late = time.After(time.Until(q.started.Add(limit)))
		}
		select {
		case <-q.done:
		case <-late:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// listBuilds returns the builds that have answered.
func listBuilds(paths []string, queries map[string]*versionQuery) []Build {
	var builds []Build
	for _, path := range paths {
		q := queries[path]
		if q == nil || !q.hasEnded() || q.err != nil {
			continue
		}
		build := Build{Major: q.major, Version: q.version, Path: path, Engine: HeadlessShell}
		if isComplete(path) {
			build.Engine, build.Headful, build.DevTools, build.Extensions = Chromium, true, true, q.loadsExtensions()
		}
		builds = append(builds, build)
	}
	slices.SortStableFunc(builds, compareNewest)
	return builds
}

// candidates lists the real paths of all files named like a browser: the
// system's first, then those of each directory by name.
func (f *Finder) candidates() []string {
	var paths []string
	add := func(path string) {
		if path != "" && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	if f.opts.Path != "" {
		add(realBinary(f.opts.Path))
	} else {
		for _, path := range systemBinaries() {
			add(path)
		}
	}
	for _, dir := range f.opts.Dirs {
		for _, path := range f.findBelow(dir) {
			if real, err := filepath.EvalSymlinks(path); err == nil {
				add(real)
			}
		}
	}
	return paths
}

func systemBinaries() []string {
	var paths []string
	for _, name := range systemNames {
		if path, err := exec.LookPath(name); err == nil {
			paths = append(paths, realBinary(path))
		}
	}
	for _, dir := range packageDirs {
		found, _, _ := listDir("/" + dir)
		for _, path := range found {
			paths = append(paths, realBinary(path))
		}
	}
	return paths
}

// findBelow lists the executables in a directory of builds: in it, in its
// directories, one level deeper, and in unpacked packages.
func (f *Finder) findBelow(dir string) []string {
	found, builds, err := listDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		if _, known := f.unreadable.LoadOrStore(dir, true); !known {
			f.opts.Log.Warn("failed to list directory of browser builds", "path", dir, "error", err)
		}
	}
	for _, build := range builds {
		here, deeper, _ := listDir(build)
		for _, name := range packageDirs {
			deeper = append(deeper, filepath.Join(build, name))
		}
		// A directory with an executable contains only its files.
		for i := 0; len(here) == 0 && i < len(deeper); i++ {
			more, _, _ := listDir(deeper[i])
			found = append(found, more...)
		}
		found = append(found, here...)
	}
	return found
}

// listDir returns the files of a directory that are named like a browser
// executable, and its directories. It skips hidden entries, which are builds
// being installed.
func listDir(dir string) (binaries, dirs []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		path, mode := filepath.Join(dir, e.Name()), e.Type()
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if mode&fs.ModeSymlink != 0 {
			if info, err := os.Stat(path); err == nil {
				mode = info.Mode().Type()
			}
		}
		switch {
		case mode.IsDir():
			dirs = append(dirs, path)
		case mode.IsRegular() && slices.Contains(binaryNames, e.Name()):
			binaries = append(binaries, path)
		}
	}
	return binaries, dirs, err
}

// realBinary resolves links and, for a wrapper script, looks for the executable
// in package directories; empty if there is none.
func realBinary(path string) string {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	if checkExecutable(path) == nil {
		return path
	}
	name, dir := filepath.Base(path), filepath.Dir(path)
	near := []string{filepath.Join("/usr/lib", name, name), filepath.Join("/usr/lib64", name, name),
		filepath.Join(dir, "chrome"), filepath.Join(dir, "chromium")}
	for _, candidate := range near {
		if candidate != path && checkExecutable(candidate) == nil {
			return candidate
		}
	}
	return ""
}

// isComplete reports whether a build is a complete browser and not a headless
// shell: only the former includes the window's images and the DevTools front
// end. A shell may be in the directory of a complete browser, but has another
// name.
func isComplete(path string) bool {
	if strings.Contains(filepath.Base(path), "headless") {
		return false
	}
	for _, name := range []string{"resources.pak", "chrome_100_percent.pak"} {
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), name)); err != nil {
			return false
		}
	}
	return true
}
