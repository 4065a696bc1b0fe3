package weborigin_test

import (
	"testing"

	"github.com/browser-svc/svc/shared/weborigin"
)

func TestOf(t *testing.T) {
	for address, want := range map[string]string{
		"https://example.com/a?b#c":            "https://example.com",
		"http://user:secret@example.com:8080/": "http://example.com:8080",
		"http://[::1]:80":                      "http://[::1]:80",
		"about:blank":                          "",
		"blob:https://example.com/1":           "",
		"chrome-extension://abc/page.html":     "",
		"https:///path":                        "",
		"https://%zz/":                         "",
	} {
		if got := weborigin.Of(address); got != want {
			t.Errorf("%s: got %q, want %q", address, got, want)
		}
	}
}
