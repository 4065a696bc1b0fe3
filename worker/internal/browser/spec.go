package browser

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/browser-svc/svc/shared/lazy"
	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/shared/switches"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/cdp"
)

// DefaultTimeout is the timeout of a launch without Spec.Timeout.
const DefaultTimeout = 30 * time.Second

var defaultScreen = settings.Size{Width: 1920, Height: 1080}

// Spec describes a launch. Only LaunchID and Build are required. The names and
// meanings of the settings follow Playwright.
type Spec struct {
	LaunchID string // names the launch's directory: letters, digits, - and _
	Build    builds.Build
	Headless bool
	Warm     bool // started in advance with build, display kind and locale only; see Configure

	settings.Emulation
	settings.Options                     // StartURLs: about:blank when nil, and no tab when empty
	CACertificates   []*x509.Certificate // authorities that are trusted in addition to those of the browser

	// ClientCertificates, by host:port, are presented by the proxy.
	ClientCertificates map[string]tls.Certificate

	DebugPort   int    // of the debugging server on 127.0.0.1; by default a free port
	ProxyServer string // scheme://host:port of the proxy for all traffic, loopback included; empty: none
	// OnProxyListener is called before the start, if the browser has a separate network,
	// with a listener that replaces ProxyServer there. The listener is closed with the
	// browser.
	OnProxyListener func(net.Listener)
	// OpenContextProxy opens an address of that proxy for one browser context, as
	// package intercept needs it. Nil: contexts use their proxies directly.
	OpenContextProxy func(server, bypass string) (address string, closeProxy func(), err error)
	// CountDenied counts a request that Rules deny in the browser, by its host with an
	// optional port, or its scheme with a colon. It must not block. Optional.
	CountDenied func(host string, v netrules.Verdict)
	// BeforeFirstPage is called with the control connection when the browser answers, before
	// it opens a start URL. An error ends the launch. Optional.
	BeforeFirstPage func(ctx context.Context, conn *cdp.Conn) error
	Rules           *netrules.Policy // that pages and clients cannot pass; those for connections are the proxy's. Nil: none
	Replay          *Replay          // answers requests that Rules allow. Nil: the network does
	Extensions      []Extension      // loaded before the first page
	Timeout         time.Duration    // limit of the launch; DefaultTimeout when zero
	Data            Data             // persistent data; nil for none
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

var (
	launchIDPattern = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	localePattern   = lazy.Regexp(`^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$`)
	timezonePattern = lazy.Regexp(`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$`)
)

// validate returns all problems of the spec, joined. The API validates requests
// with better messages; this is the last line of defense.
func (s *Spec) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(launchIDPattern().MatchString(s.LaunchID), "launch id %q is not usable", s.LaunchID)
	check(s.Build.Path != "", "no build")
	check(s.Headless || s.Build.Headful, "build %s does not support headful mode", s.Build.Version)
	check(s.Locale == "" || localePattern().MatchString(s.Locale), "locale %q is not a language tag", s.Locale)
	check(s.TimezoneID == "" || timezonePattern().MatchString(s.TimezoneID), "time zone %q is not a zone name", s.TimezoneID)
	settings.VisitEnums(&s.Emulation, func(name string, value *string, enum []string) {
		check(*value == "" || slices.Contains(enum, *value), "%s %q is unknown", name, *value)
	})
	check(inRange(s.Viewport), "viewport is out of range")
	check(inRange(s.Screen), "screen is out of range")
	check(s.DeviceScaleFactor >= 0 && s.DeviceScaleFactor <= 8, "device scale factor %v is out of range", s.DeviceScaleFactor)
	check(!strings.ContainsAny(s.UserAgent, "\x00\r\n"), "user agent contains a line break or NUL")
	check(s.ColorScheme != "dark" || s.Build.Engine != builds.HeadlessShell, "build %s does not support the dark color scheme", s.Build.Version)
	check(len(s.Extensions) == 0 || s.Build.Extensions, "build %s cannot load extensions", s.Build.Version)
	for _, p := range s.Permissions {
		check(permissions[p] != "", "permission %q is unknown", p)
	}
	for _, u := range s.StartURLs {
		check(ValidStartURL(u), "start URL %q is not http, https or about:blank", u)
	}
	check(s.Headless || !s.noTabs(), "a headful browser needs a tab")
	for i, arg := range s.Args {
		reason, refused := switches.Refused(arg)
		check(!refused, "args[%d]: %s", i, reason)
	}
	check(s.DebugPort >= 0 && s.DebugPort <= 65535, "debugging port %d is out of range", s.DebugPort)
	check(s.ProxyServer == "" || validProxy(s.ProxyServer), "the proxy server must be scheme://host:port without credentials")
	return errors.Join(errs...)
}

// noTabs reports whether the browser starts without a tab.
func (s *Spec) noTabs() bool { return s.StartURLs != nil && len(s.StartURLs) == 0 }

// defersFirstPage reports whether the browser starts with a blank tab, because its start
// URLs must wait: for BeforeFirstPage, or until the extensions are loaded or the rules hold.
func (s *Spec) defersFirstPage() bool {
	return s.BeforeFirstPage != nil || len(s.Extensions) > 0 || s.Rules != nil || s.Replay != nil
}

// inRange reports whether Chromium accepts a size; nil is the default.
func inRange(s *settings.Size) bool {
	return s == nil || s.Width >= 1 && s.Width <= 16384 && s.Height >= 1 && s.Height <= 16384
}

// ValidStartURL reports whether a tab may open this URL: http, https or
// about:blank.
func ValidStartURL(raw string) bool {
	if raw == "about:blank" {
		return true
	}
	u, err := url.Parse(raw)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// validProxy reports whether Chromium accepts a proxy; it does not accept
// credentials.
func validProxy(server string) bool {
	u, err := url.Parse(server)
	return err == nil && slices.Contains([]string{"http", "https", "socks4", "socks5"}, u.Scheme) && u.Port() != "" &&
		*u == url.URL{Scheme: u.Scheme, Host: u.Host}
}

func (s *Spec) screen() settings.Size {
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

// window returns the screen size in CSS pixels and the scale that switches and
// the display set. Metrics from the protocol are applied on top.
func (s *Spec) window() (size settings.Size, scale float64) {
	switch {
	case !s.emulatesMetrics():
		return s.screen(), s.scale()
	case settings.Enabled(s.IsMobile):
		return defaultScreen, 1
	default:
		return s.screen(), 1
	}
}

// minScale is the smallest scale that Chromium accepts on its command line: with
// less, a headless Chromium does not start and a headful one uses this value.
const minScale = 0.5

// emulatesMetrics reports whether the protocol sets the dimensions of pages;
// otherwise the window, the display and switches set them.
func (s *Spec) emulatesMetrics() bool {
	return s.Viewport != nil || settings.Enabled(s.IsMobile) || s.scale() < minScale
}
