// Package email normalizes e-mail addresses.
package email

import "strings"

// Normal returns the form in which an address is stored and compared: without
// surrounding spaces and with ASCII letters in lower case. Other letters are unchanged,
// because lowercasing them would merge different mailboxes, such as those of the Kelvin
// sign and k.
func Normal(address string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, strings.TrimSpace(address))
}
