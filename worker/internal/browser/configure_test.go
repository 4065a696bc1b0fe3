package browser_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
)

func TestConfigure_MatchesColdLaunch(t *testing.T) {
	r := newIsolatedFixture(t)
	const zone = "Asia/Tokyo"
	usual := func(s *browser.Spec) { // sets the default values
		s.Locale, s.ColorScheme, s.Screen, s.DeviceScaleFactor = "en-US", "light", &settings.Size{Width: 1920, Height: 1080}, 1
	}
	desktop := func(s *browser.Spec) {
		s.Locale, s.TimezoneID, s.Viewport, s.DeviceScaleFactor = "fr-FR", zone, &settings.Size{Width: 800, Height: 600}, 2
		s.ExtraHTTPHeaders, s.Permissions = map[string]string{"X-Probe": "yes"}, []string{"notifications", "camera"}
	}
	handset := func(s *browser.Spec) {
		s.Viewport, s.Screen, s.DeviceScaleFactor = &settings.Size{Width: 412, Height: 796}, &settings.Size{Width: 412, Height: 924}, 2.625
		s.IsMobile, s.HasTouch = new(true), new(true)
		s.Geolocation, s.Permissions = &settings.Geolocation{Latitude: 48.5, Longitude: 2.25, Accuracy: new(10.0)}, []string{"geolocation"}
	}
	for _, test := range []struct {
		name     string
		headless bool
		set      func(*browser.Spec)
		fullOnly bool // combines the other cases
	}{
		{"plain", true, func(*browser.Spec) {}, true},
		{"elsewhere", true, func(s *browser.Spec) { s.TimezoneID = zone }, true},
		{"plain-window", false, func(*browser.Spec) {}, true},
		{"usual", true, usual, false},
		{"desktop", true, desktop, true},
		{"desktop-window", false, desktop, false},
		{"handset", true, handset, false},
	} {
		if test.fullOnly && !testenv.Full() {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			spec := r.spec(test.name)
			spec.Headless = test.headless
			test.set(&spec)
			if cold := spec.StartupSettings(); cold != nil {
				t.Fatalf("settings %v can be applied only at the start", cold)
			}
			started := observeBrowser(t, spec, r.launch)
			configured := observeBrowser(t, spec, r.launchConfigured)
			if diff := cmp.Diff(started, configured); diff != "" {
				t.Errorf("(-started +configured):\n%s", diff)
			}
		})
	}
}

// observeBrowser returns what pages observe in a browser of spec.
func observeBrowser(t *testing.T, spec browser.Spec, get func(*testing.T, browser.Spec) *browser.Browser) map[string]any {
	t.Helper()
	o := newPageRecorder(t)
	spec.StartURLs = []string{o.URL + "/start"}
	b := get(t, spec)
	values := o.observe(t, b)
	values["command line"] = switchesOf(t, b)
	if err := b.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	return values
}

// switchesOf returns a browser's command line without its launch id and first URL.
func switchesOf(t *testing.T, b *browser.Browser) []string {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", b.PID()))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Fields(strings.ReplaceAll(string(raw), "\x00", " ")), func(arg string) bool {
		return strings.Contains(arg, b.LaunchID) || strings.HasPrefix(arg, "--proxy-server=") || strings.HasPrefix(arg, "http") || arg == "about:blank"
	})
}

func TestStartupSettings(t *testing.T) {
	small := &settings.Size{Width: 1280, Height: 720}
	for name, test := range map[string]struct {
		spec browser.Spec
		want []string
	}{
		"nothing":                  {browser.Spec{}, nil},
		"user agent":               {browser.Spec{Emulation: settings.Emulation{UserAgent: "Test/1.0"}}, []string{"userAgent"}},
		"dark":                     {browser.Spec{Emulation: settings.Emulation{ColorScheme: "dark"}}, []string{"colorScheme"}},
		"light":                    {browser.Spec{Emulation: settings.Emulation{ColorScheme: "light"}}, nil},
		"screen":                   {browser.Spec{Emulation: settings.Emulation{Screen: small}}, []string{"screen"}},
		"the usual screen":         {browser.Spec{Emulation: settings.Emulation{Screen: &settings.Size{Width: 1920, Height: 1080}}}, nil},
		"screen beside a viewport": {browser.Spec{Emulation: settings.Emulation{Screen: small, Viewport: small}}, []string{"screen"}},
		"screen of a phone":        {browser.Spec{Emulation: settings.Emulation{Screen: small, IsMobile: new(true)}}, nil},
		"scale":                    {browser.Spec{Emulation: settings.Emulation{DeviceScaleFactor: 2}}, []string{"deviceScaleFactor"}},
		"scale of 1":               {browser.Spec{Emulation: settings.Emulation{DeviceScaleFactor: 1}}, nil},
		"scale of a viewport":      {browser.Spec{Emulation: settings.Emulation{DeviceScaleFactor: 2, Viewport: small}}, nil},
		"certificates":             {browser.Spec{Options: settings.Options{IgnoreHTTPSErrors: new(true)}}, []string{"ignoreHTTPSErrors"}},
		"args":                     {browser.Spec{Options: settings.Options{Args: []string{"--mute-audio"}}}, []string{"args"}},
		"settings of the protocol": {configurableSpec(browser.Spec{}), nil},
		"several": {
			browser.Spec{Emulation: settings.Emulation{UserAgent: "Test/1.0", ColorScheme: "dark"}, Options: settings.Options{Args: []string{"--mute-audio"}, IgnoreHTTPSErrors: new(true)}},
			[]string{"userAgent", "colorScheme", "ignoreHTTPSErrors", "args"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.spec.StartupSettings()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// configurableSpec returns s with every setting that Configure can apply.
func configurableSpec(s browser.Spec) browser.Spec {
	s.Locale, s.TimezoneID, s.Viewport, s.IsMobile, s.HasTouch = "fr-FR", "Asia/Tokyo", &settings.Size{Width: 412, Height: 915}, new(true), new(true)
	s.DeviceScaleFactor, s.Geolocation, s.Permissions = 2.5, &settings.Geolocation{Latitude: 1}, []string{"geolocation"}
	s.ExtraHTTPHeaders, s.StartURLs = map[string]string{"X-Probe": "yes"}, []string{"about:blank"}
	return s
}

// launchWarm launches a warm browser for the spec.
func (r *fixture) launchWarm(t *testing.T, spec browser.Spec) *browser.Browser {
	t.Helper()
	b := r.launch(t, browser.Spec{
		LaunchID: spec.LaunchID + "-warm", Build: spec.Build, Headless: spec.Headless, Warm: true,
		Emulation: settings.Emulation{Locale: spec.Locale, TimezoneID: spec.TimezoneID},
	})
	return b
}

func (r *fixture) launchConfigured(t *testing.T, spec browser.Spec) *browser.Browser {
	t.Helper()
	b := r.launchWarm(t, spec)
	began := time.Now()
	if err := b.Configure(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	t.Logf("configured in %v", time.Since(began))
	return b
}

func TestConfigure_AcceptsWarmBrowserOnce(t *testing.T) {
	r := newFixture(t).withShell(t)
	spec := r.spec("one")
	if err := r.launch(t, spec).Configure(t.Context(), spec); !errors.Is(err, browser.ErrNotWarm) {
		t.Errorf("Configure of a launched browser: %v", err)
	}
	b := r.launchConfigured(t, spec)
	if err := b.Configure(t.Context(), spec); !errors.Is(err, browser.ErrNotWarm) {
		t.Errorf("second Configure: %v", err)
	}
}
