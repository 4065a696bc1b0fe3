package browser

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Build is one installed Chromium.
type Build struct {
	Major    int
	Version  string // four numbers
	Path     string // of the real executable, never of a wrapper script
	Headful  bool   // can show a window
	DevTools bool   // serves its own DevTools front end
}

// FindOptions says where to look for builds.
type FindOptions struct {
	Path string       // an executable or wrapper to use instead of the system's (CHROMIUM_PATH)
	Dirs []string     // directories that hold builds, one or two levels deep
	UID  int          // run `--version` as this user when the worker is root; 65534 by default
	Log  *slog.Logger // told of what is skipped
}

// Finder lists installed builds and remembers what it has asked them.
type Finder struct {
	opts FindOptions

	mu    sync.Mutex
	known map[string]knownBuild
}

type knownBuild struct {
	modified time.Time
	size     int64
	build    Build
}

// NewFinder returns a Finder that looks where the options say.
func NewFinder(opts FindOptions) *Finder {
	if opts.UID == 0 {
		opts.UID = 65534
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Finder{opts: opts, known: make(map[string]knownBuild)}
}

var (
	systemNames = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"}
	systemPaths = []string{"/usr/lib/chromium/chromium", "/usr/lib/chromium-browser/chromium-browser",
		"/usr/lib64/chromium-browser/chromium-browser", "/opt/google/chrome/chrome"}
	binaryNames    = []string{"chromium", "chrome", "chromium-browser", "headless_shell", "chrome-headless-shell"}
	versionPattern = regexp.MustCompile(`\b(\d+)\.\d+\.\d+\.\d+\b`)
)

// Find lists the builds, newest first, each executable once. A candidate that
// does not answer `--version` is left out and logged; a configured Path that
// yields nothing is an error.
func (f *Finder) Find(ctx context.Context) ([]Build, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var builds []Build
	seen := make(map[string]bool)
	for _, path := range f.candidates() {
		if seen[path] {
			continue
		}
		seen[path] = true
		b, err := f.inspect(ctx, path)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("find builds: %w", ctx.Err())
		}
		if err != nil {
			f.opts.Log.Warn("browser build left out", "path", path, "error", err)
			continue
		}
		builds = append(builds, b)
	}
	if f.opts.Path != "" && !slices.ContainsFunc(builds, func(b Build) bool { return b.Path == realBinary(f.opts.Path) }) {
		return nil, fmt.Errorf("find builds: %s is not a usable Chromium", f.opts.Path)
	}
	slices.SortStableFunc(builds, func(a, b Build) int { return b.Major - a.Major })
	return builds, nil
}

func (f *Finder) candidates() []string {
	var paths []string
	add := func(path string) {
		if real := realBinary(path); real != "" {
			paths = append(paths, real)
		}
	}
	if f.opts.Path != "" {
		add(f.opts.Path)
	} else {
		for _, name := range systemNames {
			if path, err := exec.LookPath(name); err == nil {
				add(path)
			}
		}
		for _, path := range systemPaths {
			add(path)
		}
	}
	for _, dir := range f.opts.Dirs {
		for _, name := range binaryNames {
			for _, depth := range []string{"", "*", "*/*"} {
				found, _ := filepath.Glob(filepath.Join(dir, depth, name))
				for _, path := range found {
					add(path)
				}
			}
		}
	}
	return paths
}

// realBinary follows links and, for a wrapper script, looks for the
// executable where packages put it; empty when there is none.
func realBinary(path string) string {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	if isExecutable(path) {
		return path
	}
	name, dir := filepath.Base(path), filepath.Dir(path)
	near := []string{filepath.Join("/usr/lib", name, name), filepath.Join("/usr/lib64", name, name),
		filepath.Join(dir, "chrome"), filepath.Join(dir, "chromium")}
	for _, candidate := range near {
		if candidate != path && isExecutable(candidate) {
			return candidate
		}
	}
	return ""
}

// isExecutable reports whether path is an ELF file that may be run.
func isExecutable(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return false
	}
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	magic := make([]byte, 4)
	_, err = file.Read(magic)
	return err == nil && bytes.Equal(magic, []byte("\x7fELF"))
}

func (f *Finder) inspect(ctx context.Context, path string) (Build, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Build{}, err
	}
	if k, ok := f.known[path]; ok && k.modified.Equal(info.ModTime()) && k.size == info.Size() {
		return k.build, nil
	}
	version, major, err := f.askVersion(ctx, path)
	if err != nil {
		return Build{}, err
	}
	full := hasResources(filepath.Dir(path))
	b := Build{Major: major, Version: version, Path: path, Headful: full, DevTools: full}
	f.known[path] = knownBuild{modified: info.ModTime(), size: info.Size(), build: b}
	return b, nil
}

// hasResources tells a whole browser from a headless shell: only the former
// comes with the window's pictures and the DevTools front end.
func hasResources(dir string) bool {
	for _, name := range []string{"resources.pak", "chrome_100_percent.pak"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

func (f *Finder) askVersion(ctx context.Context, path string) (version string, major int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent"}
	cmd.WaitDelay = time.Second
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(f.opts.UID), Gid: uint32(f.opts.UID)}}
	}
	out, err := cmd.Output()
	if err != nil {
		return "", 0, fmt.Errorf("ask version: %w", err)
	}
	match := versionPattern.FindSubmatch(out)
	if match == nil {
		return "", 0, errors.New("ask version: no version in the answer")
	}
	major, err = strconv.Atoi(string(match[1]))
	return string(match[0]), major, err
}
