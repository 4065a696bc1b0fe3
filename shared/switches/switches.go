// Package switches lists the command line switches of the browser that callers must
// not set. The cloud checks them when a profile is written, the worker when a
// browser is launched.
package switches

import (
	"fmt"
	"slices"
	"strings"

	"github.com/browser-svc/svc/shared/lazy"
)

// MaxLength is the maximum length of a switch in bytes.
const MaxLength = 4096

// maxNameShown is the maximum length of a name in a reason, in bytes.
const maxNameShown = 64

var pattern = lazy.Regexp(`^--[A-Za-z0-9][A-Za-z0-9-]*(=[^\x00-\x1f\x7f]*)?$`)

// Refused reports whether a caller must not set the switch (--name or --name=value),
// and why.
func Refused(arg string) (reason string, refused bool) {
	if len(arg) > MaxLength {
		return fmt.Sprintf("must not be longer than %d bytes", MaxLength), true
	}
	if !pattern().MatchString(arg) {
		return "must be a switch: --name or --name=value, without control characters", true
	}
	name, value, _ := strings.Cut(strings.ToLower(arg[len("--"):]), "=")
	if slices.Contains(allowed, name) {
		return "", false
	}
	for _, f := range refusedGroups {
		if f.matches(name) {
			return "--" + name[:min(len(name), maxNameShown)] + " is not allowed: " + f.reason, true
		}
	}
	if strings.HasSuffix(name, "-features") && containsAny(value, features) {
		return "--" + name[:min(len(name), maxNameShown)] + " names a feature that the sandbox depends on", true
	}
	return "", false
}

func (f refusedGroup) matches(name string) bool {
	return slices.Contains(f.exact, name) ||
		slices.ContainsFunc(f.prefix, func(p string) bool { return strings.HasPrefix(name, p) }) ||
		slices.ContainsFunc(f.suffix, func(s string) bool { return strings.HasSuffix(name, s) }) ||
		containsAny(name, f.containing)
}

func containsAny(s string, parts []string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(s, p) })
}
