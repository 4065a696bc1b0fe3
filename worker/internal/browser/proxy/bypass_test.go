package proxy

import (
	"strings"
	"testing"
	"time"
)

// TestBypass_MatchesLikeChromium checks the rules of Chromium's documentation of
// proxy settings.
func TestBypass_MatchesLikeChromium(t *testing.T) {
	for _, tc := range []struct{ list, straight, through string }{
		{"", "localhost:80 x.localhost:80 LOCALHOST.:80 127.0.0.1:80 127.9.9.9:443 [::1]:80 169.254.1.1:80 [fe80::1]:80 [::ffff:127.0.0.1]:80",
			"site.test:80 local:80 10.0.0.1:80 localhost.test:80 mylocalhost:80"},
		{"<-loopback>", "", "localhost:80 x.localhost:80 127.0.0.1:80 [::1]:80 169.254.1.1:80 [fe80::1]:80 site.test:80"},
		{"<-loopback>,127.0.0.1", "127.0.0.1:80", "localhost:80 127.0.0.2:80"},
		{"localhost,<-loopback>", "", "localhost:80 127.0.0.1:80"}, // the last matching rule decides
		{"<local>", "intranet:80 localhost:80", "site.test:80 10.0.0.1:80 [2001:db8::1]:80"},
		{"site.test", "site.test:80 SITE.test:443 site.test.:80", "a.site.test:80 mysite.test:80 site.test.evil:80"},
		{" *site.test ; other.test ", "site.test:80 a.site.test:80 mysite.test:80 other.test:80", "site.tests:80"},
		{".site.test", "a.site.test:80 a.b.site.test:80", "site.test:80 mysite.test:80"},
		{"*.site.test", "a.site.test:80", "site.test:80"},
		{"x.*.y.test:99", "x.a.y.test:99 x.a.b.y.test:99", "x.a.y.test:98 x.y.test:99 a.y.test:99 zz.a.y.test:99"},
		{"*", "site.test:80 10.0.0.1:443 [2001:db8::1]:80", ""},
		{"site.test:8080", "site.test:8080", "site.test:80"},
		{"10.0.0.0/8", "10.1.2.3:80 [::ffff:10.1.2.3]:80", "11.0.0.1:80 ten.test:80"},
		{"2001:db8::/32", "[2001:db8::1]:80", "[2001:db9::1]:80"},
		{"192.168.1.1/16", "192.168.200.1:80", "192.169.0.1:80"},
		{"[2001:db8::1]", "[2001:db8::1]:80 [2001:0db8:0::1]:443", "[2001:db8::2]:80"},
		{"[2001:db8::1]:99", "[2001:db8::1]:99", "[2001:db8::1]:98"},
		{"192.168.1.1:99", "192.168.1.1:99", "192.168.1.1:98"},
		{"http://site.test", "site.test:80", "tls:site.test:443"},
		{"https://site.test:444", "tls:site.test:444", "site.test:444 tls:site.test:443"},
		{"wss://site.test", "tls:site.test:443", "site.test:80"},
		{"site.test:x,,http://,/,a/b,10.0.0.0/99,:", "", "site.test:80 a:80 10.0.0.1:80"}, // only invalid rules
	} {
		rules := parseBypass(tc.list)
		for want, targets := range map[bool]string{true: tc.straight, false: tc.through} {
			for target := range strings.FieldsSeq(targets) {
				address, tls := strings.CutPrefix(target, "tls:")
				host, port, err := splitTarget(address)
				if err != nil {
					t.Fatal(err)
				}
				if rules.matches(!tls, host, port) != want {
					t.Errorf("%q: %s bypasses the proxy: %v", tc.list, target, !want)
				}
			}
		}
	}
}

func TestBypass_WorstCasePatternIsFast(t *testing.T) {
	rules := parseBypass(strings.Repeat("*a", 2000) + "b")
	began := time.Now()
	rules.matches(true, strings.Repeat("a", 200), 80)
	if took := time.Since(began); took > time.Second {
		t.Errorf("%v", took)
	}
}
