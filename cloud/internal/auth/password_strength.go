package auth

import (
	"strings"
	"unicode"

	emails "github.com/browser-svc/svc/cloud/internal/email"
)

const (
	// minCharacters is how many characters a password has, spaces around it not
	// counted, and minDistinct how many different ones.
	minCharacters = 10
	minDistinct   = 5
	// maxPadding is how many digits and signs around a word leave it the same.
	maxPadding = 4
)

// commonPasswords are those that everybody tries first, and what this product is
// called.
var commonPasswords = map[string]bool{
	"1234567890": true, "0123456789": true, "0987654321": true, "9876543210": true, "12345678910": true,
	"qwertyuiop": true, "qwertzuiop": true, "password": true, "passwordpassword": true, "letmeinplease": true,
	"administrator": true, "svc-cloud": true, "svccloud": true, "svc-worker": true, "svcworker": true,
	"browser-svc": true, "browsersvc": true, "browser svc": true,
}

// passwordWeakness tells why a password is one that is easily guessed; "" when it is
// not. It knows the user's address and name, which may be empty.
func passwordWeakness(password, email, name string) string {
	trimmed := strings.ToLower(strings.TrimSpace(password))
	distinct := map[rune]bool{}
	for _, r := range trimmed {
		distinct[r] = true
	}
	if len([]rune(trimmed)) < minCharacters {
		return "must have at least ten characters, spaces around it not counted"
	}
	if len(distinct) < minDistinct {
		return "must have at least five different characters"
	}
	local, _, _ := strings.Cut(email, "@")
	for _, known := range []string{email, local, name} {
		known = strings.ToLower(emails.Normal(known))
		if known != "" && (trimmed == known || trimmed == known+known || trimPadding(trimmed) == known) {
			return "must not be the e-mail address or the name"
		}
	}
	if commonPasswords[trimmed] || commonPasswords[trimPadding(trimmed)] {
		return "is one of the passwords that are tried first"
	}
	return ""
}

// trimPadding is a password without the few digits and signs around it.
func trimPadding(password string) string {
	word := strings.TrimFunc(password, func(r rune) bool { return !unicode.IsLetter(r) })
	if len(password)-len(word) > maxPadding {
		return password
	}
	return word
}
