// Package browsertest runs real browsers for tests and inspects their pages.
package browsertest

import (
	"slices"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
)

// NewLauncher returns a function that starts browsers of the newest build with
// headful mode and DevTools. The test fails if there is no such build. The browsers
// end with the test. As root, each browser gets a separate user id.
func NewLauncher(t testing.TB) func(spec browser.Spec) *browser.Browser {
	t.Helper()
	builds, err := browser.NewFinder(browser.FindOptions{}).Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(builds, func(b browser.Build) bool { return b.Headful && b.DevTools })
	if i < 0 {
		t.Fatal("no Chromium with windows and DevTools is installed; these tests need one")
	}
	launcher, err := browser.NewLauncher(browser.Options{Dir: testenv.PublicTempDir(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = launcher.Close() })
	return func(spec browser.Spec) *browser.Browser {
		t.Helper()
		spec.Build = builds[i]
		b, err := launcher.Launch(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}
