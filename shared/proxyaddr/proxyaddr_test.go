package proxyaddr

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	for _, tc := range []struct{ server, username, password, field string }{
		{"http://proxy.example:3128", "robot", "secret", ""},
		{"https://proxy.example", "", "", ""},
		{"socks5://[::1]:1080", "ro:bot", "secret", ""},
		{"http://[", "", "", "server"},
		{"http://:3128", "", "", "server"},
		{"http://proxy.example:", "", "", "server"},
		{"http://proxy.example:99999", "", "", "server"},
		{"http://proxy.example:0", "", "", "server"},
		{"http://proxy.example:3128", "ro:bot", "", "username"},
		{"socks5://proxy.example:1080", "", "secret", "username"},
		{"socks5://proxy.example:1080", strings.Repeat("ü", 128), "", "username"},
		{"socks5://proxy.example:1080", "robot", strings.Repeat("x", 256), "password"},
		{"http://proxy.example:3128", strings.Repeat("x", 256), strings.Repeat("x", 256), ""},
	} {
		found := Check(tc.server, tc.username, tc.password)
		if tc.field == "" && len(found) > 0 || tc.field != "" && (len(found) != 1 || found[0].Field != tc.field) {
			t.Errorf("Check(%q, %q): %v, want %q", tc.server, tc.username, found, tc.field)
		}
	}
}
