package browser_test

import (
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/settings"
)

func TestLaunch_SmallScaleFactor(t *testing.T) {
	r := newFixture(t)
	for name, headless := range map[string]bool{"headless": true, "headful": false} {
		spec := r.spec(name)
		spec.Headless, spec.DeviceScaleFactor, spec.Screen = headless, 0.25, &settings.Size{Width: 1280, Height: 720}
		c := dial(t, r.launch(t, spec))
		page := c.open(t, "about:blank")
		eventually(t, 10*time.Second, name+": a ratio of 0.25", func() bool { // a new window gets it a little later
			var ratio float64
			c.eval(t, page, `devicePixelRatio`, &ratio)
			return ratio == 0.25
		})
	}
}
