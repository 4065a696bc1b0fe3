package clientaddr_test

import (
	"testing"

	"github.com/browser-svc/svc/shared/clientaddr"
)

func TestKey(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7":             "192.0.2.7",
		"::ffff:192.0.2.7":      "192.0.2.7",
		"2001:db8:1:2:3:4:5:6":  "2001:db8:1:2::/64",
		"2001:db8:1:2::":        "2001:db8:1:2::/64",
		"fe80::1%eth0":          "fe80::/64",
		"::ffff:192.0.2.7%eth0": "192.0.2.7",
		"not an address":        "not an address",
		"":                      "",
		"192.0.2.7:8080":        "192.0.2.7:8080",
	} {
		if got := clientaddr.Key(address); got != want {
			t.Errorf("%q: got %q, want %q", address, got, want)
		}
	}
}

func TestNetwork_ReportsInvalidAddresses(t *testing.T) {
	if network, ok := clientaddr.Network("192.0.2.7"); !ok || network.String() != "192.0.2.7/32" {
		t.Errorf("got %s, %t", network, ok)
	}
	if network, ok := clientaddr.Network("unknown"); ok {
		t.Errorf("got %s for an invalid address", network)
	}
}
