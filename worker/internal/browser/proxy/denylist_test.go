package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/browser-svc/svc/worker/internal/browser/proxy"
)

func parseDenylist(t *testing.T, list string) proxy.Denylist {
	t.Helper()
	p, err := proxy.ParseDenylist(list)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDefaultDenylist_MatchesEverySpelling(t *testing.T) {
	p := parseDenylist(t, proxy.DefaultDenylist)
	for _, host := range []string{
		"169.254.169.254", "169.254.0.1", "169.254.169.254.", "2852039166", "0xa9fea9fe", "0XA9FEA9FE", "025177524776", "0251.0376.0251.0376",
		"0251.254.0xa9.254", "169.254.43518", "169.16689662", "0169.0254.0169.0254", "00000169.254.1.1", "0xa9.0xfe.0.1",
		"[::ffff:169.254.169.254]", "::ffff:a9fe:a9fe", "[0:0:0:0:0:FFFF:A9FE:A9FE]", "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::1",
		"fe80::1", "[fe80::1%eth0]", "[fe80::1%25eth0]", "febf::1", "fd00:ec2::254", "[fd00:0ec2:0:0::0:254]", "fd00:ec2::23", "fd00:ec2:0:1::254", "100.100.100.200", "168.63.129.16",
		"metadata", "metadata.google.internal", "Metadata.Google.Internal.", "metadata.google.internal..", "x.metadata.google.internal", "instance-data",
		"１６９.254.169.254", "169%2e254.169.254", "169.254.169.254%00", "a b", "foo%2525",
	} {
		if !p.Denies(host) {
			t.Errorf("%s is allowed, want denied", host)
		}
	}
	for _, host := range []string{
		"169.253.255.255", "169.255.0.0", "169.254.test", "169.254.169.254.nip.io", "2852039166.test", "100.100.100.201", "127.0.0.1", "localhost", "10.0.0.1",
		"::1", "::", "fec0::1", "fe7f::1", "fd00:ec1::254", "fd00:ec3::254", "::ffff:8.8.8.8", "64:ff9b::808:808", "metadata.test", "notmetadata", "internal", "google.internal",
		"1.2.3.4.5", "4294967296", "256.1.1.1", "0x", "09", "", "xn--bcher-kva.test", "a_b.test",
	} {
		if p.Denies(host) {
			t.Errorf("%s is denied, want allowed", host)
		}
	}
}

func TestDenylist_EmptyDeniesNothing(t *testing.T) {
	for _, list := range []string{"", " ", ","} {
		p := parseDenylist(t, list)
		if p.Denies("169.254.169.254") || p.Denies("a%b") {
			t.Errorf("%q denies a host, want none denied", list)
		}
	}
}

func TestParseDenylist_RefusesInvalidEntries(t *testing.T) {
	for _, list := range []string{"10.0.0.0/33", "http://x", "a b", "*.test", "x:80", "fe80::1%eth0", "10.1", "0x7f.1", "ü.test", "a..b", "10.0.0.0/8;x"} {
		if _, err := proxy.ParseDenylist(list); err == nil {
			t.Errorf("%q was accepted", list)
		}
	}
	if !parseDenylist(t, " ::ffff:10.0.0.0/104 , FD00::/8, Example.TEST. ").Denies("10.9.8.7") {
		t.Error("a network of IPv4-mapped addresses does not match IPv4")
	}
}

func TestForwarder_AppliesDenylist(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(echo))
	defer origin.Close()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			o := newFakeInternet(t, kind, hostOf(t, origin.URL))
			f, log := startWithPolicy(t, newPolicy(t, proxy.DefaultDenylist), o.Upstream)
			for _, head := range []string{
				"CONNECT 169.254.169.254:80 HTTP/1.1\nHost: site.test",
				"CONNECT [::ffff:169.254.169.254]:80 HTTP/1.1\nHost: site.test",
				"CONNECT metadata.google.internal.:443 HTTP/1.1\nHost: site.test",
				"GET http://169.254.169.254/latest HTTP/1.1\nHost: site.test",
				"GET http://2852039166/ HTTP/1.1\nHost: site.test",
				"GET http://１６９.254.169.254/ HTTP/1.1\nHost: site.test",
				"GET http://metadata:8080/ HTTP/1.1\nHost: site.test",
			} {
				method, rest, _ := strings.Cut(head, " ")
				if answer, _ := ask(t, dial(t, f), method, rest); answer.StatusCode != http.StatusForbidden {
					t.Errorf("%s: %s", head, answer.Status)
				}
			}
			if f.Denied() != 7 || strings.Count(log.String(), "level=WARN") != 1 {
				t.Errorf("got %d denied requests, want 7, and one warning:\n%s", f.Denied(), log)
			}
			if logins, _, _ := o.requests(); len(logins) != 0 {
				t.Errorf("the upstream got requests: %q", logins)
			}
			if answer, _ := do(t, clientOf(t, f), "GET", "http://site.test/", ""); answer.StatusCode != http.StatusOK || f.Denied() != 7 {
				t.Errorf("another host: got %s, %d denied requests", answer.Status, f.Denied())
			}
		})
	}
}
