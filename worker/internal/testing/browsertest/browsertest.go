// Package browsertest runs real browsers for tests and inspects their pages.
package browsertest

import (
	"slices"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
)

// NewLauncher returns a function that starts browsers of the newest build with
// headful mode and DevTools. The test fails if there is no such build. The browsers
// end with the test. As root, each browser gets a separate user id.
func NewLauncher(t testing.TB) func(spec browser.Spec) *browser.Browser {
	t.Helper()
	return newLauncher(t, func(b builds.Build) bool { return b.Headful && b.DevTools })
}

// NewEngineLauncher is NewLauncher for the newest build of an engine.
func NewEngineLauncher(t testing.TB, engine builds.Engine) func(spec browser.Spec) *browser.Browser {
	t.Helper()
	return newLauncher(t, func(b builds.Build) bool { return b.Engine == engine })
}

func newLauncher(t testing.TB, suits func(builds.Build) bool) func(spec browser.Spec) *browser.Browser {
	t.Helper()
	installed, err := builds.NewFinder(builds.FindOptions{}).Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(installed, suits)
	if i < 0 {
		t.Fatal("these tests need a Chromium with windows and DevTools, and a headless shell: scripts/need chromium headless-shell")
	}
	launcher, err := browser.NewLauncher(browser.Options{Dir: testenv.PublicTempDir(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = launcher.Close() })
	return func(spec browser.Spec) *browser.Browser {
		t.Helper()
		spec.Build = installed[i]
		b, err := launcher.Launch(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}
