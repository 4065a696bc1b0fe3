package email_test

import (
	"testing"

	"github.com/browser-svc/svc/cloud/internal/platform/email"
)

func TestNormal_FoldsOnlyASCIILetters(t *testing.T) {
	for address, want := range map[string]string{
		" Ada@Example.COM ":       "ada@example.com",
		"\u212Aelvin@example.com": "\u212Aelvin@example.com", // the Kelvin sign, which strings.ToLower converts to k
		"\u0130@example.com":      "\u0130@example.com",      // I with a dot
		"Ä@example.com":           "Ä@example.com",
		"ada@exam\u212Aple.com":   "ada@exam\u212Aple.com",
	} {
		if got := email.Normal(address); got != want {
			t.Errorf("Normal(%q) is %q, want %q", address, got, want)
		}
	}
}
