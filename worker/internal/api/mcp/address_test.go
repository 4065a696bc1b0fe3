package mcp_test

import (
	"testing"

	"github.com/browser-svc/svc/worker/internal/api/mcp"
)

func TestWithScheme(t *testing.T) {
	for address, want := range map[string]string{
		"example.com": "https://example.com", "example.com:8443/a?b=https://c#d": "https://example.com:8443/a?b=https://c#d",
		"localhost:8080/x": "http://localhost:8080/x", "app.localhost": "http://app.localhost",
		"127.0.0.1": "http://127.0.0.1", "10.0.0.5:3000/a": "http://10.0.0.5:3000/a", "[::1]:8080/x": "http://[::1]:8080/x",
		"http://example.com": "http://example.com", "https://example.com:1/": "https://example.com:1/", "about:blank": "about:blank",
		"javascript:alert(1.5)": "javascript:alert(1.5)", "data:text/html,a.b": "data:text/html,a.b", "file:///etc/hosts.conf": "file:///etc/hosts.conf",
		"chrome://version": "chrome://version", "view-source:http://example.com": "view-source:http://example.com",
		"mailto:ann@example.com": "mailto:ann@example.com", "ann@example.com": "ann@example.com", "tel:123": "tel:123",
		"/path": "/path", "weather": "weather", "": "", `example.com\@evil.example`: `example.com\@evil.example`,
	} {
		if got := mcp.WithScheme(address); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}
