// Package email says which spellings of an e-mail address are one address.
package email

import "strings"

// Normal is how an address is stored and compared: without spaces around it, and
// with the ASCII letters in lower case. Other letters stay as they are: folding
// them would make one mailbox of several, such as the Kelvin sign's and k's.
func Normal(address string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, strings.TrimSpace(address))
}
