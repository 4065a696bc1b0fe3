package org

import (
	"crypto/rand"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

const (
	slugMax     = 63 // characters, as in the document
	slugMin     = 2
	suffixBytes = 6
	attempts    = 4 // with a random suffix; a second collision is very unlikely
)

// slugCandidates returns the slugs to try for a name: the slug of the name, if it is
// not empty, and then slugs with random suffixes.
func slugCandidates(name string) []string {
	base := slugOf(name)
	var result []string
	if len(base) >= slugMin {
		result = append(result, base)
	} else {
		base = "org"
	}
	base = strings.TrimRight(base[:min(len(base), slugMax-1-suffixBytes)], "-")
	for range attempts {
		result = append(result, base+"-"+strings.ToLower(rand.Text()[:suffixBytes]))
	}
	return result
}

// slugOf returns the name in lowercase Latin letters and digits, with hyphens between
// words. It is empty if the name has no such characters.
func slugOf(name string) string {
	var b strings.Builder
	gap := false
	for _, r := range norm.NFKD.String(strings.ToLower(name)) {
		switch {
		case unicode.Is(unicode.Mn, r): // a combining accent
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			if gap && b.Len() > 0 {
				b.WriteByte('-')
			}
			gap = false
			b.WriteRune(r)
		default:
			gap = true
		}
	}
	slug := b.String()
	return strings.TrimRight(slug[:min(len(slug), slugMax)], "-")
}
