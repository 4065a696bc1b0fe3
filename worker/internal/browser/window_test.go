package browser_test

import (
	"fmt"
	"testing"
	"time"
)

// TestWindow_OpensWithoutWarningBar looks for Chromium's bar about unsupported
// switches: it reduces the height of the first tab only.
func TestWindow_OpensWithoutWarningBar(t *testing.T) {
	r := newFixture(t)
	for _, build := range majorBuilds(t) {
		if !build.Headful {
			continue
		}
		spec := r.spec(fmt.Sprintf("window-%d", build.Major))
		spec.Build, spec.Headless = build, false
		spec.ProxyServer, spec.IgnoreHTTPSErrors = "http://127.0.0.1:9", new(true) // IgnoreHTTPSErrors and --gaia-url cause warnings
		c := dial(t, r.launch(t, spec))
		first := c.attach(t, firstPage(t, c))
		height := func(page string) (px int) {
			c.call(t, page, "Page.bringToFront", nil)
			c.eval(t, page, `document.visibilityState === "visible" && outerHeight > innerHeight ? innerHeight : 0`, &px)
			return px
		}
		second := c.open(t, "about:blank")
		var firstHeight, secondHeight int
		eventually(t, 10*time.Second, "two tabs with a stable height", func() bool {
			before, beside := firstHeight, secondHeight
			firstHeight, secondHeight = height(first), height(second)
			return firstHeight > 0 && secondHeight > 0 && firstHeight == before && secondHeight == beside
		})
		if firstHeight != secondHeight {
			t.Errorf("%s: the first tab is %d px high, the second %d", build.Version, firstHeight, secondHeight)
		}
	}
}
