package browser

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// leanFlags are given to every browser.
var leanFlags = []string{
	// Nobody is there to answer first-run questions, or to keep a wallet open.
	"--no-first-run",
	"--no-default-browser-check",
	"--disable-default-apps",
	"--password-store=basic",
	"--hide-crash-restore-bubble",
	// Never call home: updates, accounts, experiments, statistics, crash reports.
	"--disable-background-networking",
	"--disable-component-update",
	"--disable-component-extensions-with-background-pages",
	"--disable-sync",
	"--disable-domain-reliability",
	"--disable-field-trial-config",
	"--disable-search-engine-choice-screen",
	"--disable-breakpad",
	"--metrics-recording-only",
	"--no-pings",
	// No switch stops these, so they are sent to a port that Chromium itself
	// refuses to connect to.
	"--gaia-url=" + nowhere,
	"--gcm-checkin-url=" + nowhere,
	"--component-updater=url-source=" + nowhere,
	// Automated pages shall run at full speed when nobody looks at them.
	"--disable-background-timer-throttling",
	"--disable-backgrounding-occluded-windows",
	"--disable-renderer-backgrounding",
	"--disable-hang-monitor",
	"--disable-ipc-flooding-protection",
}

// disabledFeatures reach for the network on their own.
const disabledFeatures = "AimEnabled,DialMediaRouteProvider,MediaRouter,NetworkTimeServiceQuerying," +
	"OptimizationHints,PreconnectToSearch,Translate"

const nowhere = "http://127.0.0.1:9/"

// quietWindow spares a window the bar that warns of unsupported switches, which
// --gaia-url, --host-resolver-rules and --ignore-certificate-errors are. Pages
// cannot tell.
const quietWindow = "--test-type"

// proxiedOnly keeps WebRTC from sending UDP, which no proxy here carries, past
// the proxy. Whole browsers know the first switch only, headless shells the
// second.
var proxiedOnly = []string{
	"--webrtc-ip-handling-policy=disable_non_proxied_udp",
	"--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
}

// command is what a launch is started with.
type command struct {
	args []string
	env  []string
}

func buildCommand(s *Spec, dirs dirs, disp *display, noSandbox bool) command {
	args := append([]string{
		"--remote-debugging-pipe",
		"--remote-debugging-port=0",
		"--remote-debugging-address=127.0.0.1",
		"--user-data-dir=" + dirs.data,
		markerSwitch + dirs.root,
	}, leanFlags...)
	args = append(args, windowFlags(s)...)
	args = append(args, settingFlags(s)...)
	if noSandbox {
		args = append(args, "--no-sandbox")
	}
	if smallSharedMemory() {
		args = append(args, "--disable-dev-shm-usage")
	}
	args = append(args, mergeFeatures(s.Args)...)
	args = append(args, firstURL(s))
	return command{args: args, env: buildEnv(s, dirs, disp)}
}

func windowFlags(s *Spec) []string {
	size, scale := s.screen(), s.scale()
	if s.emulatesMetrics() {
		scale = 1
		if s.IsMobile || s.Screen == nil {
			size = defaultScreen
		}
	}
	flags := []string{
		"--window-position=0,0",
		fmt.Sprintf("--window-size=%d,%d", size.Width, size.Height),
	}
	if scale != 1 {
		flags = append(flags, "--force-device-scale-factor="+formatFloat(scale))
	}
	if !s.Headless {
		return append(flags, quietWindow)
	}
	physical := size.scaled(scale)
	return append(flags, "--headless",
		fmt.Sprintf("--screen-info={%dx%d devicePixelRatio=%s}", physical.Width, physical.Height, formatFloat(scale)))
}

func settingFlags(s *Spec) []string {
	var flags []string
	add := func(when bool, name, value string) {
		if when {
			flags = append(flags, "--"+name+value)
		}
	}
	add(s.UserAgent != "", "user-agent=", s.UserAgent)
	add(s.Locale != "", "lang=", s.Locale)
	add(s.Locale != "", "accept-lang=", acceptLanguages(s.Locale))
	add(s.ColorScheme == "dark", "force-dark-mode", "")
	add(s.IgnoreHTTPSErrors, "ignore-certificate-errors", "")
	if s.Proxy != nil {
		add(true, "proxy-server=", s.Proxy.Server)
		add(s.Proxy.Bypass != "", "proxy-bypass-list=", strings.ReplaceAll(s.Proxy.Bypass, ",", ";"))
		flags = append(flags, proxiedOnly...)
	} else {
		add(true, "no-proxy-server", "")
	}
	add(len(s.Deny) > 0, "host-resolver-rules=", denyRules(s.Deny))
	return flags
}

// denyPattern is a host as Chromium writes it: lower case, addresses in their
// shortest form, IPv6 without brackets. It may hold * (any text) and ? (at most
// one character).
var denyPattern = regexp.MustCompile(`^[a-z0-9*?_.:-]{1,255}$`)

// denyRules makes the named hosts unknown to the browser, addresses too. They
// are needed with a proxy as well: Chromium goes to link-local addresses and to
// this machine without it. A name that leads to a denied address passes, and so,
// without a proxy, do the few bytes of STUN that WebRTC sends over UDP; what the
// proxy is asked for is for the proxy to judge.
func denyRules(patterns []string) string {
	var rules []string
	for _, p := range patterns {
		rules = append(rules, "MAP "+p+" ~NOTFOUND")
	}
	return strings.Join(rules, ",")
}

// mergeFeatures joins the caller's --disable-features with ours, since
// Chromium obeys only the last one.
func mergeFeatures(args []string) []string {
	const name = "--disable-features="
	features := disabledFeatures
	var out []string
	for _, a := range args {
		if more, ok := strings.CutPrefix(a, name); ok {
			features += "," + more
			continue
		}
		out = append(out, a)
	}
	return append(out, name+features)
}

// firstURL is what the first tab opens with: its start URL, unless the page
// needs settings from the protocol before.
func firstURL(s *Spec) string {
	if len(s.StartURLs) == 0 || needsEmulation(s) {
		return "about:blank"
	}
	return s.StartURLs[0]
}

// buildEnv is the browser's whole environment: nothing of the worker's own is
// handed down.
func buildEnv(s *Spec, dirs dirs, disp *display) []string {
	env := append(baseEnv(dirs),
		"XDG_CONFIG_HOME="+dirs.home+"/.config",
		"XDG_CACHE_HOME="+dirs.home+"/.cache",
		"XDG_DATA_HOME="+dirs.home+"/.local/share",
		"XDG_RUNTIME_DIR="+dirs.tmp,
		"DBUS_SESSION_BUS_ADDRESS=disabled:",
	)
	if disp != nil {
		env = append(env, "DISPLAY=:"+strconv.Itoa(disp.number), "XAUTHORITY="+dirs.xauth)
	}
	if s.Locale != "" {
		env = append(env, "LANGUAGE="+strings.ReplaceAll(s.Locale, "-", "_"))
	}
	if s.TimezoneID != "" {
		env = append(env, "TZ="+s.TimezoneID)
	}
	return env
}

// baseEnv is what the display gets too. The marker lets a boot sweep tell our
// processes from all others.
func baseEnv(dirs dirs) []string {
	return []string{
		"PATH=/usr/local/bin:/usr/bin:/bin",
		"LANG=C.UTF-8",
		"HOME=" + dirs.home,
		"TMPDIR=" + dirs.short,
		markerName + "=" + dirs.root,
	}
}

// acceptLanguages is what a browser of that locale prefers: fr-FR,fr.
func acceptLanguages(locale string) string {
	language, _, regional := strings.Cut(locale, "-")
	if !regional {
		return locale
	}
	return locale + "," + language
}

func (s Size) scaled(by float64) Size {
	return Size{Width: int(math.Round(float64(s.Width) * by)), Height: int(math.Round(float64(s.Height) * by))}
}

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
