package switches

// refusedGroup is a group of switches that are refused for the same reason, by name,
// prefix, suffix or substring.
type refusedGroup struct {
	reason                            string
	exact, prefix, suffix, containing []string
}

// refusedGroups are the switches that would override the launcher's settings.
// Refusing a harmless switch costs a caller little; allowing a dangerous one
// endangers the machine.
var refusedGroups = []refusedGroup{{
	reason: "the worker sets the debugging port",
	prefix: []string{"remote-"},
	exact: []string{"custom-devtools-frontend", "devtools-flags", "wait-for-debugger", "wait-for-debugger-children",
		"wait-for-debugger-webui"},
}, {
	reason: "the worker sets the data directory and decides which files are read and written",
	prefix: []string{"profile-", "print-to-pdf", "trace-", "crash", "use-file-for-"},
	suffix: []string{"-dir", "-directory", "-file", "-path", "-folder", "-dump"},
	exact: []string{"homedir", "log-net-log", "net-log", "enable-logging-to-file", "user-data", "screenshot", "dump-dom",
		"allow-file-access", "allow-file-access-from-files", "import", "guest"},
}, {
	// Experiments, policies, models and scripts from another server, and data sent to one.
	reason: "configuration from other servers and data collection by other servers are not allowed",
	prefix: []string{"diagnostics", "dump-", "force-fieldtrial", "force-variation", "force-disable-variation", "gaia-", "device-management",
		"optimization-guide-", "realtime-reporting", "encrypted-reporting"},
	suffix:     []string{"-url", "-urls", "-endpoint"},
	containing: []string{"variations"},
	exact: []string{"field-trial-handle", "enable-field-trial-config", "enable-chrome-browser-cloud-management",
		"breakpad-dump-location", "webrtc-event-logging", "policy-verification-key", "translate-security-origin"},
}, {
	reason:     "the worker sets the proxy",
	containing: []string{"proxy"},
	exact:      []string{"host-resolver-rules", "host-rules", "webrtc-ip-handling-policy", "force-webrtc-ip-handling-policy"},
}, {
	reason:     "the sandbox must stay enabled",
	containing: []string{"sandbox", "zygote", "seccomp"},
	prefix:     []string{"in-process-", "single-", "mojo-", "enable-mojo"},
	exact:      []string{"type", "disable-namespace", "allow-pre-commit-input", "disable-kill-after-bad-ipc"},
}, {
	reason: "loading other code or programs is not allowed",
	prefix: []string{"load-", "install-", "pack-", "ppapi", "register-pepper", "uninstall", "app", "extension",
		"extra-plugin", "allowlisted-extension", "whitelisted-extension", "utility-cmd", "browser-subprocess",
		"component-updater"},
	suffix: []string{"-launcher", "-cmd-prefix", "-extension", "-extensions", "-startup-dialog"},
	exact: []string{"disable-extensions-except", "gtk-version", "use-gl-library", "extensions-on-chrome-urls",
		"extensions-on-extension-urls"},
}, {
	reason: "the worker controls the window and the display",
	prefix: []string{"svc-", "headless", "ozone-platform", "no-startup-window", "silent-launch"},
	exact: []string{"display", "x11-display", "screen-info", "version", "product-version", "help", "h", "timeout", "repl",
		"flag-switches-begin", "flag-switches-end", "make-default-browser"},
}}

// allowed are harmless switches that a group would refuse.
var allowed = []string{"disable-extensions"}

// features must not appear in a list of features to enable or disable.
var features = []string{"sandbox", "mojojs", "inprocess", "zygote"}
