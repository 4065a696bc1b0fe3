package fault

import (
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// MaxReceived is the maximum length of Detail.Received in characters.
const MaxReceived = 1000

// Truncate shortens s to n characters and appends an ellipsis.
func Truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	count := 0
	for i := range s {
		if count == n {
			return s[:i] + "…"
		}
		count++
	}
	return s
}

// secretWords mark the names of secrets.
var secretWords = []string{"pass", "secret", "token", "key", "auth", "credential", "cookie", "ticket", "signature"}

// IsSecretName reports whether the name of a member, parameter or header suggests
// that its value is a secret.
func IsSecretName(name string) bool {
	lower := strings.ToLower(name)
	for _, word := range secretWords {
		if strings.Contains(lower, word) {
			return true
		}
	}
	return false
}

// secretPatterns match secrets in any text.
var secretPatterns = sync.OnceValue(func() []secretPattern {
	return []secretPattern{
		{"_", regexp.MustCompile(`(?i)svc_[a-z2-7]{32}`), "svc_***"},
		{"%5", regexp.MustCompile(`(?i)svc%5f[a-z2-7]{32}`), "svc_***"},
		{"eyJ", regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+`), "***"},
		{"@", regexp.MustCompile(`://[^/\s"'?#]*@`), "://***@"},
	}
})

type secretPattern struct {
	mark        string // part of every match, for a fast check
	pattern     *regexp.Regexp
	replacement string
}

// MaskSecrets returns text with organization keys, tokens and the credentials of
// URLs masked.
func MaskSecrets(text string) string {
	for _, secret := range secretPatterns() {
		if strings.Contains(text, secret.mark) {
			text = secret.pattern.ReplaceAllString(text, secret.replacement)
		}
	}
	return text
}

// RedactReceived returns a received value for a response: without secrets, and
// truncated to MaxReceived characters. A truncated value is returned as text.
func RedactReceived(received any) any {
	if text, isText := received.(string); isText {
		return Truncate(MaskSecrets(text), MaxReceived)
	}
	encoded, err := json.Marshal(received)
	if err != nil || utf8.RuneCount(encoded) <= MaxReceived {
		return received
	}
	return Truncate(MaskSecrets(string(encoded)), MaxReceived)
}
