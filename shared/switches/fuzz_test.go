package switches

import (
	"strings"
	"testing"
	"unicode"
)

// undoing are substrings of refused names.
var undoing = []string{"proxy", "sandbox", "zygote", "seccomp"}

// beginnings are prefixes of refused names.
var beginnings = []string{"remote-", "load-", "headless", "ozone-platform", "svc-", "profile-", "in-process-", "mojo-"}

// FuzzRefused: an accepted argument is a single switch that Chromium parses in the same
// way and that does not override a protection. The verdict does not depend on the case
// of the name.
func FuzzRefused(f *testing.F) {
	for _, arg := range []string{
		"--user-agent=a=b", "--lang", "--disable-extensions", "--NO-SANDBOX", "--enable-features=A,mojoJS", "--a=b\n--no-sandbox", "-no-sandbox",
		"--remote-debugging-port=1", " --no-sandbox", "--no-sandbox ", "--user-data-dir=/", "--x-dir=", "--\u212Aiosk", "--no_sandbox", "--a=\xff", "--disable-blink-features=Sandbox",
	} {
		f.Add(arg)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		reason, refused := Refused(arg)
		if refused != (reason != "") || len(reason) > 200 || strings.ContainsFunc(reason, unicode.IsControl) {
			t.Fatalf("refused %v, since it %q", refused, reason)
		}
		if again, _ := Refused(strings.ToUpper(arg)); !strings.EqualFold(again, reason) && arg == strings.ToLower(strings.ToUpper(arg)) {
			t.Errorf("in capitals it %q, otherwise it %q", again, reason)
		}
		if refused {
			return
		}
		name, value, _ := strings.Cut(arg, "=")
		name = strings.ToLower(strings.TrimPrefix(name, "--"))
		if len(arg) > MaxLength || !strings.HasPrefix(arg, "--") || strings.TrimRight(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || strings.HasPrefix(name, "-") {
			t.Fatalf("%q is no switch", arg)
		}
		if strings.ContainsFunc(arg, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Fatalf("%q has a control character", arg)
		}
		for _, part := range undoing {
			if strings.Contains(name, part) {
				t.Errorf("%q passes", arg)
			}
		}
		for _, part := range []string{"sandbox", "zygote", "mojojs", "inprocess"} {
			if strings.HasSuffix(name, "-features") && strings.Contains(strings.ToLower(value), part) {
				t.Errorf("%q passes", arg)
			}
		}
		for _, begin := range beginnings {
			if strings.HasPrefix(name, begin) {
				t.Errorf("%q passes", arg)
			}
		}
	})
}
