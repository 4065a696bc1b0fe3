package builds

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

const driverName = "chromedriver"

// DriverFinder finds the WebDriver servers of builds and caches their versions.
type DriverFinder struct {
	versions *versionCache
	path     string // replaces the one in PATH; empty for none
}

// NewDriverFinder returns a DriverFinder. path is an executable, which replaces the one
// in PATH; empty for none.
func NewDriverFinder(path string, opts FindOptions) *DriverFinder {
	return &DriverFinder{versions: NewFinder(opts).versions, path: path}
}

// NoDriverError means that no WebDriver server has the major version of a build.
type NoDriverError struct {
	Major int    // of the build
	Found string // what was found instead; empty if nothing
}

// Error says what is missing and how to install it.
func (e *NoDriverError) Error() string {
	found := "none is installed"
	if e.Found != "" {
		found = "found only " + e.Found
	}
	return fmt.Sprintf("This worker has no chromedriver %d for Chromium %d: %s. Install it beside the browser's executable or in PATH; "+
		"on Debian: apt-get install chromium-driver.", e.Major, e.Major, found)
}

// Find returns the path of the WebDriver server for a build: that beside it, or else
// the configured one, or else that in PATH. Errors: *NoDriverError.
func (f *DriverFinder) Find(ctx context.Context, build Build) (string, error) {
	missing := &NoDriverError{Major: build.Major}
	for _, path := range f.candidates(build) {
		found, err := f.version(ctx, path)
		switch {
		case ctx.Err() != nil:
			return "", fmt.Errorf("find chromedriver: %w", ctx.Err())
		case err == nil && found.major == build.Major:
			return path, nil
		case err == nil && missing.Found == "":
			missing.Found = "version " + found.version
		}
	}
	return "", missing
}

func (f *DriverFinder) candidates(build Build) (paths []string) {
	add := func(path string) {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			paths = append(paths, real)
		}
	}
	add(filepath.Join(filepath.Dir(build.Path), driverName))
	if f.path != "" {
		add(f.path)
		return paths
	}
	if path, err := exec.LookPath(driverName); err == nil {
		add(path)
	}
	return paths
}

// version returns the version of an executable.
func (f *DriverFinder) version(ctx context.Context, path string) (versionInfo, error) {
	q, err := f.versions.query(path)
	if err != nil {
		return versionInfo{}, err
	}
	select {
	case <-q.done:
		return q.versionInfo, q.err
	case <-ctx.Done():
		return versionInfo{}, ctx.Err()
	}
}
