package browser

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/browser/display"
	"github.com/browser-svc/svc/worker/internal/browser/process"
)

// baseFlags are given to every browser.
var baseFlags = []string{
	// No first-run questions and no password wallet.
	"--no-first-run",
	"--no-default-browser-check",
	"--disable-default-apps",
	"--password-store=basic",
	"--hide-crash-restore-bubble",
	// No background requests: updates, accounts, experiments, statistics, crash reports.
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
	// No switch disables these, so they go to a port that Chromium blocks.
	"--gaia-url=" + blockedURL,
	"--gcm-checkin-url=" + blockedURL,
	"--component-updater=url-source=" + blockedURL,
	// Automated pages run at full speed in the background.
	"--disable-background-timer-throttling",
	"--disable-backgrounding-occluded-windows",
	"--disable-renderer-backgrounding",
	"--disable-hang-monitor",
	"--disable-ipc-flooding-protection",
	// No zygote without a sandbox: only the GPU process would be forked from it, and starts by
	// itself.
	"--no-unsandboxed-zygote",
	// The sandbox of the launch makes its setuid helper useless.
	"--disable-setuid-sandbox",
}

// disabledFeatures send background requests, except these: BackForwardCache keeps pages, which
// fire no load event when they are restored, so that page.goBack of Playwright never returns.
// WebUIOmnibox... renders address bar suggestions as pages, which costs each browser 70 MB and
// half a second of CPU. SpareRenderer... starts a renderer for a next site, which most sessions
// never open.
const disabledFeatures = "BackForwardCache,SpareRendererForSitePerProcess,AimEnabled,DialMediaRouteProvider,MediaRouter," +
	"NetworkTimeServiceQuerying,OptimizationHints,PreconnectToSearch,Translate,WebUIOmniboxPopup,WebUIOmniboxAimPopup"

// networkThread makes the network service a thread of the browser process.
const networkThread = "NetworkServiceInProcess2"

// gpuThread makes the GPU process a thread of the browser process.
const gpuThread = "--in-process-gpu"

// gpuIsThread reports whether the GPU process is a thread. A crash of it ends the session then,
// so sessions with a window or with persistent data have a process.
func (s *Spec) gpuIsThread() bool {
	return s.Build.Engine == builds.HeadlessShell || s.Headless && s.Data == nil
}

const blockedURL = "http://127.0.0.1:9/"

// noWarningBar hides the bar that warns of unsupported switches such as
// --gaia-url and --ignore-certificate-errors, which would reduce the first
// page's height. Pages cannot detect it.
const noWarningBar = "--test-type"

// softwareWebGL lets pages use WebGL without a GPU, as headless browsers do without a
// switch. The renderer is SwiftShader, in the GPU process, which Chromium does not sandbox then.
const softwareWebGL = "--enable-unsafe-swiftshader"

// proxyLoopback sends requests to loopback and link-local addresses through the
// proxy too: by default Chromium connects to them directly.
const proxyLoopback = "--proxy-bypass-list=<-loopback>"

// webRTCFlags keep WebRTC from sending UDP past the proxy. Complete browsers
// support only the first switch, headless shells the second.
var webRTCFlags = []string{
	"--webrtc-ip-handling-policy=disable_non_proxied_udp",
	"--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
}

// command is the command line and environment of a launch.
type command struct {
	args []string
	env  []string
}

func buildCommand(s *Spec, layout paths, disp *display.Server, noSandbox bool) command {
	args := append([]string{
		"--remote-debugging-pipe",
		"--remote-debugging-port=" + strconv.Itoa(s.DebugPort),
		"--remote-debugging-address=127.0.0.1",
		"--user-data-dir=" + layout.data,
		process.MarkerSwitch + layout.root,
	}, baseFlags...)
	args = append(args, windowFlags(s)...)
	args = append(args, settingFlags(s)...)
	args = append(args, extensionFlags(s, layout)...)
	if noSandbox {
		args = append(args, "--no-sandbox")
	}
	if layout.smallSharedMemory {
		args = append(args, "--disable-dev-shm-usage")
	}
	if s.gpuIsThread() {
		args = append(args, gpuThread)
	}
	args = append(args, mergeFeatures(s.Args)...)
	if s.noTabs() {
		args = append(args, "--no-startup-window")
	} else if s.defersFirstPage() {
		args = append(args, "about:blank")
	} else {
		args = append(args, firstURL(s))
	}
	return command{args: args, env: buildEnv(s, layout, disp)}
}

func windowFlags(s *Spec) []string {
	size, scale := s.window()
	flags := []string{
		"--window-position=0,0",
		fmt.Sprintf("--window-size=%d,%d", size.Width, size.Height),
	}
	if scale != 1 {
		flags = append(flags, "--force-device-scale-factor="+formatFloat(scale))
	}
	flags = append(flags, noWarningBar)
	if !s.Headless {
		return append(flags, softwareWebGL)
	}
	physical := scaled(size, scale)
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
	add(settings.Enabled(s.IgnoreHTTPSErrors), "ignore-certificate-errors", "")
	if s.ProxyServer == "" {
		return append(flags, "--no-proxy-server")
	}
	flags = append(flags, "--proxy-server="+s.ProxyServer, proxyLoopback)
	return append(flags, webRTCFlags...)
}

// mergeFeatures merges the caller's --disable-features and --enable-features with
// disabledFeatures and networkThread: Chromium uses only the last switch of each.
func mergeFeatures(args []string) []string {
	const disable, enable = "--disable-features=", "--enable-features="
	disabled, enabled := []string{disabledFeatures}, []string{networkThread}
	var out []string
	for _, a := range args {
		if more, ok := strings.CutPrefix(a, disable); ok {
			disabled = append(disabled, more)
		} else if more, ok := strings.CutPrefix(a, enable); ok {
			enabled = append(enabled, more)
		} else {
			out = append(out, a)
		}
	}
	return append(out, disable+strings.Join(disabled, ","), enable+strings.Join(enabled, ","))
}

// firstURL returns the URL of the first tab: its start URL, or about:blank if
// the page first needs settings from the protocol.
func firstURL(s *Spec) string {
	if len(s.StartURLs) == 0 || needsEmulation(s) {
		return "about:blank"
	}
	return s.StartURLs[0]
}

// buildEnv returns the browser's environment, which inherits nothing from the
// worker's.
func buildEnv(s *Spec, layout paths, disp *display.Server) []string {
	env := append(baseEnv(layout),
		"XDG_CONFIG_HOME="+layout.home+"/.config",
		"XDG_CACHE_HOME="+layout.home+"/.cache",
		"XDG_DATA_HOME="+layout.home+"/.local/share",
		"XDG_RUNTIME_DIR="+layout.runtime,
		"DBUS_SESSION_BUS_ADDRESS=disabled:",
	)
	if s.gpuIsThread() {
		env = append(env, vulkanDriver(s.Build))
	}
	if disp != nil {
		env = append(env, "DISPLAY=:"+strconv.Itoa(disp.Number), "XAUTHORITY="+layout.xauth)
	}
	if s.Locale != "" {
		env = append(env, "LANGUAGE="+strings.ReplaceAll(s.Locale, "-", "_"))
	}
	if s.TimezoneID != "" && !layout.ownTimezone {
		env = append(env, "TZ="+s.TimezoneID)
	}
	return env
}

// vulkanDriver returns the variable that the thread of the GPU sets while other threads read the
// environment. With glibc before 2.41 this moves the environment, which crashes a reader, unless
// the variable exists.
func vulkanDriver(b builds.Build) string {
	return "VK_ICD_FILENAMES=" + filepath.Join(filepath.Dir(b.Path), "vk_swiftshader_icd.json")
}

// baseEnv returns the environment shared with the display. The marker identifies
// the launch's processes in a sweep.
func baseEnv(layout paths) []string {
	return []string{
		"PATH=/usr/local/bin:/usr/bin:/bin",
		"LANG=C.UTF-8",
		"HOME=" + layout.home,
		"TMPDIR=" + layout.tmp,
		process.MarkerName + "=" + layout.root,
	}
}

// acceptLanguages returns the language preferences of a locale, for example
// fr-FR,fr.
func acceptLanguages(locale string) string {
	language, _, regional := strings.Cut(locale, "-")
	if !regional {
		return locale
	}
	return locale + "," + language
}

func scaled(size settings.Size, factor float64) settings.Size {
	return settings.Size{Width: int(math.Round(float64(size.Width) * factor)), Height: int(math.Round(float64(size.Height) * factor))}
}

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
