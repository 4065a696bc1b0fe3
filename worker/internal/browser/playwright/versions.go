// Package playwright finds, installs and removes versions of playwright-core, each in a
// directory with the version as its name. A client needs a server of its own minor version.
package playwright

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// library is the package on the npm registry.
const library = "playwright-core"

// InstallCommand installs versions, whose numbers follow.
const InstallCommand = "svc-worker playwright install "

// Version is a version of playwright-core, without pre-releases.
type Version struct{ Major, Minor, Patch int }

// String returns, for example, 1.65.1.
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// line returns, for example, 1.65.
func (v Version) line() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

func (v Version) compare(other Version) int {
	return cmp.Or(cmp.Compare(v.Major, other.Major), cmp.Compare(v.Minor, other.Minor), cmp.Compare(v.Patch, other.Patch))
}

// ReadsTraces reports whether the trace viewer of this version reads the format in which the worker writes traces.
func (v Version) ReadsTraces() bool { return v.Major > 1 || v.Minor >= 57 }

// criterion is a version of a user: 1.65 stands for every patch of it, 1.65.1 for itself.
type criterion struct {
	Version
	exact bool
}

// String returns what the user wrote.
func (c criterion) String() string {
	if c.exact {
		return c.Version.String()
	}
	return c.line()
}

// matches reports whether the criterion stands for a version.
func (c criterion) matches(v Version) bool {
	return v == c.Version || !c.exact && v.line() == c.line()
}

// parse parses a version of two or three numbers.
func parse(text string) (criterion, error) {
	var c criterion
	parts := strings.Split(text, ".")
	invalid := fmt.Errorf("%q is not a version such as 1.65 or 1.65.1", text)
	if len(parts) != 2 && len(parts) != 3 {
		return c, invalid
	}
	for i, number := range []*int{&c.Major, &c.Minor, &c.Patch}[:len(parts)] {
		n, err := strconv.ParseUint(parts[i], 10, 31)
		if err != nil || strconv.FormatUint(n, 10) != parts[i] {
			return c, invalid
		}
		*number = int(n)
	}
	c.exact = len(parts) == 3
	return c, nil
}

// Installed is an installed version.
type Installed struct {
	Version
	Dir string // of playwright-core
}

// List returns the installed versions, the newest first. What is not a version is left out.
func List(dir string) ([]Installed, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list versions of Playwright: %w", err)
	}
	var found []Installed
	for _, e := range entries {
		name, err := parse(e.Name())
		if err != nil || !name.exact {
			continue
		}
		// npm itself installs below node_modules.
		for _, path := range []string{filepath.Join(dir, e.Name()), filepath.Join(dir, e.Name(), "node_modules", library)} {
			if isVersion(path, name.Version) {
				found = append(found, Installed{name.Version, path})
				break
			}
		}
	}
	slices.SortFunc(found, func(a, b Installed) int { return b.compare(a.Version) })
	return found, nil
}

// isVersion reports whether a directory contains this version of playwright-core.
func isVersion(dir string, version Version) bool {
	raw, err := os.ReadFile(filepath.Join(dir, "package.json"))
	var content struct{ Name, Version string }
	return err == nil && json.Unmarshal(raw, &content) == nil && content.Name == library && content.Version == version.String()
}

// ErrNone means that no version is installed.
var ErrNone = errors.New("no version of playwright-core is installed")

// MismatchError means that none of the installed versions fits a client.
type MismatchError struct {
	Client    Version
	Installed []Installed
}

// Error says what is installed, and which command installs the missing version.
func (e *MismatchError) Error() string {
	var lines []string
	for _, i := range e.Installed {
		lines = append(lines, "v"+i.line())
	}
	return fmt.Sprintf("Playwright version mismatch: server version: %s, client version: v%s. Run %s%s on the worker, or use a client with a version of the server.",
		strings.Join(slices.Compact(lines), ", "), e.Client.line(), InstallCommand, e.Client.line())
}

// Find returns the newest patch of the version of a client, from its User-Agent header. For
// other clients, which Playwright's server does not check, it is the newest version. Errors:
// ErrNone, *MismatchError.
func Find(dir, userAgent string) (Installed, error) {
	all, err := List(dir)
	if err != nil {
		return Installed{}, err
	}
	text, isPlaywright := strings.CutPrefix(userAgent, "Playwright/")
	text, _, _ = strings.Cut(text, " ")
	text, _, _ = strings.Cut(text, "-") // a pre-release
	client, err := parse(text)
	switch {
	case len(all) == 0:
		return Installed{}, ErrNone
	case !isPlaywright || err != nil:
		return all[0], nil
	}
	if i := slices.IndexFunc(all, func(i Installed) bool { return i.line() == client.line() }); i >= 0 {
		return all[i], nil
	}
	return Installed{}, &MismatchError{client.Version, all}
}
