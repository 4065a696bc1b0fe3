package auth

import (
	"strings"
	"unicode"

	emails "github.com/browser-svc/svc/cloud/internal/platform/email"
)

const (
	// minCharacters is the minimum length of a password without surrounding
	// spaces, and minDistinct the minimum number of different characters.
	minCharacters = 10
	minDistinct   = 5
	// maxPadding is the number of digits and symbols around a common word that do
	// not make it stronger.
	maxPadding = 4
)

// commonPasswords are the most frequently guessed passwords and names of this
// product.
var commonPasswords = map[string]bool{
	"1234567890": true, "0123456789": true, "0987654321": true, "9876543210": true, "12345678910": true,
	"qwertyuiop": true, "qwertzuiop": true, "password": true, "passwordpassword": true, "letmeinplease": true,
	"administrator": true, "svc-cloud": true, "svccloud": true, "svc-worker": true, "svcworker": true,
	"browser-svc": true, "browsersvc": true, "browser svc": true,
}

// passwordWeakness returns why a password is easily guessed, or "" if it is not.
// The user's address and name may be empty.
func passwordWeakness(password, email, name string) string {
	trimmed := strings.ToLower(strings.TrimSpace(password))
	distinct := map[rune]bool{}
	for _, r := range trimmed {
		distinct[r] = true
	}
	if len([]rune(trimmed)) < minCharacters {
		return "must have at least ten characters, not counting leading and trailing spaces"
	}
	if len(distinct) < minDistinct {
		return "must have at least five different characters"
	}
	local, _, _ := strings.Cut(email, "@")
	for _, identifier := range []string{email, local, name} {
		identifier = strings.ToLower(emails.Normal(identifier))
		if identifier != "" && (trimmed == identifier || trimmed == identifier+identifier || trimPadding(trimmed) == identifier) {
			return "must not be the e-mail address or the name"
		}
	}
	if commonPasswords[trimmed] || commonPasswords[trimPadding(trimmed)] {
		return "is a commonly used password"
	}
	return ""
}

// trimPadding removes a few digits and symbols around a password.
func trimPadding(password string) string {
	word := strings.TrimFunc(password, func(r rune) bool { return !unicode.IsLetter(r) })
	if len(password)-len(word) > maxPadding {
		return password
	}
	return word
}
