package vault

import (
	"errors"
	"testing"
)

func TestParsePattern(t *testing.T) {
	for text, want := range map[string]any{
		"https://accounts.example.com":      "https://accounts.example.com",
		"https://Accounts.Example.com:443":  "https://accounts.example.com",
		"https://accounts.example.com:8443": "https://accounts.example.com:8443",
		"https://*.example.com":             "https://*.example.com",
		"https://bücher.example":            "https://xn--bcher-kva.example",
		"https://10.0.0.1:8443":             "https://10.0.0.1:8443",
		"https://[2001:DB8::1]":             "https://[2001:db8::1]",
		"https://[2001:db8::1]:8443":        "https://[2001:db8::1]:8443",
		"http://localhost:3000":             "http://localhost:3000",
		"http://app.localhost":              "http://app.localhost",
		"http://127.0.0.1:80":               "http://127.0.0.1",
		"http://[::1]:8080":                 "http://[::1]:8080",
		"https://*.intranet":                "https://*.intranet",

		"http://accounts.example.com":     errPlainHTTP,
		"http://10.0.0.1":                 errPlainHTTP,
		"http://localhost.example.com":    errPlainHTTP,
		"https://*.com":                   errPublicSuffix,
		"https://*.co.uk":                 errPublicSuffix,
		"https://*.github.io":             errPublicSuffix,
		"https://*":                       errOrigin,
		"https://*.":                      errOrigin,
		"https://*.*.example.com":         errOrigin,
		"https://a*.example.com":          errOrigin,
		"https://www.*.com":               errOrigin,
		"https://*.10.0.0.1":              errOrigin,
		"https://127.1":                   errOrigin,
		"https://0x7f000001":              errOrigin,
		"https://example.com.":            errOrigin,
		"https://example..com":            errOrigin,
		"https://example.com/":            errOrigin,
		"https://example.com?":            errOrigin,
		"https://example.com?q":           errOrigin,
		"https://example.com#f":           errOrigin,
		"https://robot@example.com":       errOrigin,
		"https://example.com:":            "https://example.com",
		"https://example.com:0x50":        errOrigin,
		"https://example.com:99999":       errOrigin,
		"https://[fe80::1%25eth0]":        errOrigin,
		"https://":                        errOrigin,
		"ftp://example.com":               errOrigin,
		"https:example.com":               errOrigin,
		"javascript:alert(1)":             errOrigin,
		"https://example.com\\.evil.test": errOrigin,
	} {
		p, err := parsePattern(text)
		if wantErr, ok := want.(error); ok {
			if !errors.Is(err, wantErr) {
				t.Errorf("%s: got %v, %v, want %v", text, p, err, wantErr)
			}
		} else if err != nil || p.String() != want {
			t.Errorf("%s: got %v, %v, want %v", text, p, err, want)
		}
	}
}

func TestAllowsOrigin(t *testing.T) {
	r := row{Origins: []string{"https://accounts.example.com", "https://*.shop.example.com:8443", "http://localhost:3000"}}
	for origin, want := range map[string]bool{
		"https://accounts.example.com":          true,
		"https://accounts.example.com:443":      true,
		"https://a.shop.example.com:8443":       true,
		"https://a.b.shop.example.com:8443":     true,
		"http://localhost:3000":                 true,
		"http://accounts.example.com":           false,
		"https://accounts.example.com:8443":     false,
		"https://example.com":                   false,
		"https://x.accounts.example.com":        false,
		"https://accounts.example.com.evil.com": false,
		"https://shop.example.com:8443":         false,
		"https://evilshop.example.com:8443":     false,
		"https://a.shop.example.com":            false,
		"https://*.shop.example.com:8443":       false,
		"http://a.shop.example.com:8443":        false,
		"http://localhost":                      false,
		"http://127.0.0.1:3000":                 false,
		"null":                                  false,
		"":                                      false,
	} {
		if got := r.allowsOrigin(origin); got != want {
			t.Errorf("%s: %t, want %t", origin, got, want)
		}
	}
}
