package fault

import (
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// MaxReceived is how many characters of a value an answer repeats.
const MaxReceived = 1000

// Truncate shortens s to n characters and marks the cut with an ellipsis.
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

// secretWords in a name say that its value is a secret.
var secretWords = []string{"pass", "secret", "token", "key", "auth", "credential", "cookie", "ticket", "signature"}

// IsSecretName tells whether a member, a parameter or a header of that name may
// hold a secret, by the usual words for one.
func IsSecretName(name string) bool {
	lower := strings.ToLower(name)
	for _, word := range secretWords {
		if strings.Contains(lower, word) {
			return true
		}
	}
	return false
}

// secretPatterns are how secrets look wherever they stand.
var secretPatterns = sync.OnceValue(func() []secretPattern {
	return []secretPattern{
		{"_", regexp.MustCompile(`(?i)svc_[a-z2-7]{32}`), "svc_***"},
		{"%5", regexp.MustCompile(`(?i)svc%5f[a-z2-7]{32}`), "svc_***"},
		{"eyJ", regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+`), "***"},
		{"@", regexp.MustCompile(`://[^/\s"'?#]*@`), "://***@"},
	}
})

type secretPattern struct {
	mark        string // is in every text that the pattern finds
	pattern     *regexp.Regexp
	replacement string
}

// MaskSecrets is text with what looks like a secret masked: an organization
// key, a token, and the user and password of a URL.
func MaskSecrets(text string) string {
	for _, one := range secretPatterns() {
		if strings.Contains(text, one.mark) {
			text = one.pattern.ReplaceAllString(text, one.replacement)
		}
	}
	return text
}

// RedactReceived is a received value as an answer repeats it: without what looks like
// a secret, and cut after MaxReceived characters, as text where it is no text.
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
