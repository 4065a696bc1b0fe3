package browser

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/browser-svc/svc/shared/lazy"
	"github.com/browser-svc/svc/shared/switches"
)

// DefaultTimeout bounds a launch whose Spec names no Timeout.
const DefaultTimeout = 30 * time.Second

var defaultScreen = Size{Width: 1920, Height: 1080}

// Size is in CSS pixels.
type Size struct{ Width, Height int }

// Geolocation is a position: degrees, and metres of accuracy.
type Geolocation struct{ Latitude, Longitude, Accuracy float64 }

// Spec says what to launch. Only LaunchID and Build are required. The names
// and meanings of the settings follow Playwright.
type Spec struct {
	LaunchID string // names the launch's directory: letters, digits, - and _
	Build    Build
	Headless bool
	Warm     bool     // started ahead, with build, display kind and locale only; a Configure gives it the rest
	Args     []string // further switches; see package switches

	UserAgent         string
	Locale            string // BCP 47, for example fr-FR
	TimezoneID        string // IANA, for example Asia/Tokyo
	ColorScheme       string // light, dark, no-preference or empty
	Viewport          *Size  // stamp pages; by default what the window leaves
	Screen            *Size  // by default 1920x1080
	DeviceScaleFactor float64
	IsMobile          bool
	HasTouch          bool
	Geolocation       *Geolocation
	Permissions       []string // granted to every origin; see Permissions
	ExtraHTTPHeaders  map[string]string
	IgnoreHTTPSErrors bool

	DebugPort   int    // stamp its debugging server on 127.0.0.1; by default one that is free
	ProxyServer string // scheme://host:port of what all its traffic passes, this machine's too; empty: none
	// OnProxyListener is given, before the start, what listens in place of ProxyServer
	// where the browser has a network of its own: nothing else does there. It is
	// closed with the browser.
	OnProxyListener func(net.Listener)
	StartURLs       []string      // http, https or about:blank; one tab each; about:blank when nil, and no tab when empty
	Timeout         time.Duration // stamp the launch; DefaultTimeout when zero
	Data            Data          // directoryData after the end; nil for a browser that keeps nothing
}

// permissions translates Playwright's names to the protocol's.
var permissions = map[string]string{
	"accelerometer":        "sensors",
	"ambient-light-sensor": "sensors",
	"background-sync":      "backgroundSync",
	"camera":               "videoCapture",
	"clipboard-read":       "clipboardReadWrite",
	"clipboard-write":      "clipboardSanitizedWrite",
	"geolocation":          "geolocation",
	"gyroscope":            "sensors",
	"local-fonts":          "localFonts",
	"magnetometer":         "sensors",
	"microphone":           "audioCapture",
	"midi":                 "midi",
	"midi-sysex":           "midiSysex",
	"notifications":        "notifications",
	"payment-handler":      "paymentHandler",
	"storage-access":       "storageAccess",
}

// Permissions lists the names that Spec.Permissions may hold, sorted.
func Permissions() []string { return slices.Sorted(maps.Keys(permissions)) }

var (
	launchIDPattern = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	localePattern   = lazy.Regexp(`^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$`)
	timezonePattern = lazy.Regexp(`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$`)
)

// validate returns everything that is wrong with the spec, joined. The API
// has better words for its callers; this is the last wall.
func (s *Spec) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(launchIDPattern().MatchString(s.LaunchID), "launch id %q is not usable", s.LaunchID)
	check(s.Build.Path != "", "no build")
	check(s.Headless || s.Build.Headful, "build %s cannot show a window", s.Build.Version)
	check(s.Locale == "" || localePattern().MatchString(s.Locale), "locale %q is not a language tag", s.Locale)
	check(s.TimezoneID == "" || timezonePattern().MatchString(s.TimezoneID), "time zone %q is not a zone name", s.TimezoneID)
	check(slices.Contains([]string{"", "light", "dark", "no-preference"}, s.ColorScheme), "colour scheme %q is unknown", s.ColorScheme)
	check(s.Viewport == nil || s.Viewport.inRange(), "viewport is out of range")
	check(s.Screen == nil || s.Screen.inRange(), "screen is out of range")
	check(s.DeviceScaleFactor >= 0 && s.DeviceScaleFactor <= 8, "device scale factor %v is out of range", s.DeviceScaleFactor)
	check(!strings.ContainsAny(s.UserAgent, "\x00\r\n"), "user agent holds a line break or NUL")
	for _, p := range s.Permissions {
		check(permissions[p] != "", "permission %q is unknown", p)
	}
	for _, u := range s.StartURLs {
		check(ValidStartURL(u), "start URL %q is not http, https or about:blank", u)
	}
	check(s.Headless || !s.noTabs(), "a browser with a window has a tab")
	for i, arg := range s.Args {
		reason, refused := switches.Refused(arg)
		check(!refused, "args[%d]: %s", i, reason)
	}
	check(s.DebugPort >= 0 && s.DebugPort <= 65535, "debugging port %d is none", s.DebugPort)
	check(s.ProxyServer == "" || validProxy(s.ProxyServer), "the proxy server is not scheme://host:port, without credentials")
	return errors.Join(errs...)
}

// noTabs tells whether the browser shall start without a tab.
func (s *Spec) noTabs() bool { return s.StartURLs != nil && len(s.StartURLs) == 0 }

func (s Size) inRange() bool {
	return s.Width >= 1 && s.Width <= 16384 && s.Height >= 1 && s.Height <= 16384
}

// ValidStartURL reports whether a tab may begin at this address: http, https, or
// about:blank.
func ValidStartURL(raw string) bool {
	if raw == "about:blank" {
		return true
	}
	u, err := url.Parse(raw)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// validProxy says whether Chromium would take a proxy; credentials it never
// does.
func validProxy(server string) bool {
	u, err := url.Parse(server)
	return err == nil && slices.Contains([]string{"http", "https", "socks4", "socks5"}, u.Scheme) && u.Port() != "" &&
		*u == url.URL{Scheme: u.Scheme, Host: u.Host}
}

func (s *Spec) screen() Size {
	if s.Screen != nil {
		return *s.Screen
	}
	return defaultScreen
}

func (s *Spec) scale() float64 {
	if s.DeviceScaleFactor == 0 {
		return 1
	}
	return s.DeviceScaleFactor
}

// window is the size of the screen in CSS pixels, and its scale, as switches and
// display make them. What the protocol makes up for pages comes on top.
func (s *Spec) window() (size Size, scale float64) {
	switch {
	case !s.emulatesMetrics():
		return s.screen(), s.scale()
	case s.IsMobile:
		return defaultScreen, 1
	default:
		return s.screen(), 1
	}
}

// minScale is the least scale that Chromium takes from its switches: with
// less a headless one does not start, and one on a display takes this one.
const minScale = 0.5

// emulatesMetrics reports whether pages get their dimensions from the
// protocol; otherwise window, display and switches give them.
func (s *Spec) emulatesMetrics() bool {
	return s.Viewport != nil || s.IsMobile || s.scale() < minScale
}
