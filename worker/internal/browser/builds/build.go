// Package builds finds the Chromium builds and WebDriver servers that are installed, and
// chooses the build of a launch. A Finder runs each executable once for its version, in a
// goroutine that ends within a timeout.
package builds

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Engine is a kind of browser.
type Engine string

// The engines.
const (
	Chromium      Engine = "chromium"       // a complete browser
	HeadlessShell Engine = "headless-shell" // a program without windows, extensions and DevTools front end
)

// Build is one installed Chromium.
type Build struct {
	Major      int
	Version    string // four numbers
	Path       string // of the real executable, never of a wrapper script
	Engine     Engine
	Headful    bool // can show a window
	DevTools   bool // serves its own DevTools front end
	Extensions bool // can load extensions
}

// Needs are the capabilities that a launch needs of its build.
type Needs struct {
	Engine              Engine // "" for any
	Headful, Extensions bool
	PreferShell         bool // if there is one with the same major version
}

// fit reports whether a build has the capabilities.
func (n Needs) fit(b Build) bool {
	return (n.Engine == "" || b.Engine == n.Engine) && (b.Headful || !n.Headful) && (b.Extensions || !n.Extensions)
}

// Choose picks the build for a launch: the highest version among those of the major
// version, or among all if that is 0, that has the needed capabilities. Complete browsers
// take precedence over headless shells, also of a higher version.
// If a version is installed more than once, it prefers a complete browser, then the
// build listed first. It returns false if no build fits.
func Choose(builds []Build, major int, needs Needs) (Build, bool) {
	able := slices.DeleteFunc(slices.Clone(builds), func(b Build) bool {
		return major != 0 && b.Major != major || !needs.fit(b)
	})
	if len(able) == 0 {
		return Build{}, false
	}
	chosen := slices.MinFunc(preferEngine(able, Chromium), compareNewest)
	if needs.PreferShell {
		able = slices.DeleteFunc(able, func(b Build) bool { return b.Major != chosen.Major })
		chosen = slices.MinFunc(preferEngine(able, HeadlessShell), compareNewest)
	}
	return chosen, true
}

// preferEngine returns the builds of an engine, or all builds if there are none.
func preferEngine(builds []Build, engine Engine) []Build {
	if !slices.ContainsFunc(builds, func(b Build) bool { return b.Engine == engine }) {
		return builds
	}
	return slices.DeleteFunc(slices.Clone(builds), func(b Build) bool { return b.Engine != engine })
}

// compareNewest orders builds by version, highest first, then by capabilities.
func compareNewest(a, b Build) int {
	return cmp.Or(
		cmp.Compare(b.Major, a.Major),
		slices.Compare(versionNumbers(b.Version), versionNumbers(a.Version)),
		cmp.Compare(b.capabilities(), a.capabilities()),
	)
}

func (b Build) capabilities() int {
	n := 0
	for _, able := range []bool{b.Headful, b.DevTools, b.Extensions} {
		if able {
			n++
		}
	}
	return n
}

func versionNumbers(version string) []int {
	var parts []int
	for part := range strings.SplitSeq(version, ".") {
		n, _ := strconv.Atoi(part)
		parts = append(parts, n)
	}
	return parts
}
