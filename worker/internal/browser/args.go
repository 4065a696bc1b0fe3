package browser

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// ArgError is one refused switch.
type ArgError struct {
	Index  int // in the list given
	Reason string
}

// Error implements error.
func (e ArgError) Error() string { return fmt.Sprintf("args[%d]: %s", e.Index, e.Reason) }

const maxArgLength = 4096

var argPattern = regexp.MustCompile(`^--[A-Za-z0-9][A-Za-z0-9-]*(=[^\x00-\x1f\x7f]*)?$`)

// refusal is a family of switches that a caller may not set, by whole name,
// prefix, suffix or fragment of the name.
type refusal struct {
	reason                            string
	exact, prefix, suffix, containing []string
}

// refusals holds what would undo the launcher's own arrangements. A switch
// that falls in by accident costs a caller little; one that slips through
// costs the machine.
var refusals = []refusal{{
	reason: "the worker sets the debugging port",
	prefix: []string{"remote-"},
	exact:  []string{"custom-devtools-frontend", "devtools-flags", "wait-for-debugger", "wait-for-debugger-children", "wait-for-debugger-webui"},
}, {
	reason: "the worker sets the data directory and decides which files are read and written",
	prefix: []string{"profile-", "print-to-pdf", "trace-", "crash", "use-file-for-"},
	suffix: []string{"-dir", "-directory", "-file", "-path", "-folder", "-dump"},
	exact: []string{"homedir", "log-net-log", "net-log", "enable-logging-to-file", "user-data", "screenshot", "dump-dom",
		"allow-file-access", "allow-file-access-from-files", "import", "guest"},
}, {
	reason:     "the worker sets the proxy",
	containing: []string{"proxy"},
	exact:      []string{"host-resolver-rules", "host-rules"},
}, {
	reason:     "the sandbox stays on",
	containing: []string{"sandbox", "zygote", "seccomp"},
	prefix:     []string{"in-process-", "single-", "mojo-", "enable-mojo"},
	exact:      []string{"type", "disable-namespace", "allow-pre-commit-input", "disable-kill-after-bad-ipc"},
}, {
	reason: "code and programs are not loaded from outside",
	prefix: []string{"load-", "install-", "pack-", "ppapi", "register-pepper", "uninstall", "app", "extension", "extra-plugin",
		"allowlisted-extension", "whitelisted-extension", "utility-cmd", "browser-subprocess"},
	suffix: []string{"-launcher", "-cmd-prefix", "-extension", "-extensions", "-startup-dialog"},
	exact:  []string{"disable-extensions-except", "gtk-version", "use-gl-library", "extensions-on-chrome-urls", "extensions-on-extension-urls"},
}, {
	reason: "the worker decides whether there is a window, and where",
	prefix: []string{"svc-", "headless", "ozone-platform", "no-startup-window", "silent-launch"},
	exact:  []string{"display", "x11-display", "screen-info", "version", "product-version", "help", "timeout", "repl", "flag-switches-begin", "flag-switches-end", "make-default-browser"},
}}

// allowedArgs are harmless, though a family above would catch them.
var allowedArgs = []string{"disable-extensions"}

// refusedFeatures may not be named in a list of features to enable or disable.
var refusedFeatures = []string{"sandbox", "mojojs", "inprocess", "zygote"}

// ValidateArgs returns an error for each switch that a launch refuses, in
// order; nil when all are fine.
func ValidateArgs(args []string) []ArgError {
	var errs []ArgError
	for i, a := range args {
		if reason := refuseArg(a); reason != "" {
			errs = append(errs, ArgError{Index: i, Reason: reason})
		}
	}
	return errs
}

func refuseArg(arg string) string {
	if len(arg) > maxArgLength {
		return fmt.Sprintf("must not be longer than %d bytes", maxArgLength)
	}
	if !argPattern.MatchString(arg) {
		return "must be a switch: --name or --name=value, without control characters"
	}
	name, value, _ := strings.Cut(strings.ToLower(arg[2:]), "=")
	if slices.Contains(allowedArgs, name) {
		return ""
	}
	for _, r := range refusals {
		if r.matches(name) {
			return "--" + name + " is not allowed: " + r.reason
		}
	}
	if strings.HasSuffix(name, "-features") && containsAny(value, refusedFeatures) {
		return "--" + name + " names a feature that keeps the sandbox whole"
	}
	return ""
}

func (r refusal) matches(name string) bool {
	return slices.Contains(r.exact, name) ||
		slices.ContainsFunc(r.prefix, func(p string) bool { return strings.HasPrefix(name, p) }) ||
		slices.ContainsFunc(r.suffix, func(p string) bool { return strings.HasSuffix(name, p) }) ||
		containsAny(name, r.containing)
}

func containsAny(s string, parts []string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(s, p) })
}
