package oapi

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// syntaxError is the position and the reason of a JSON syntax error.
type syntaxError struct {
	offset int
	reason string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.reason, e.offset) }

func hexDigit(c byte) (rune, bool) {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0'), true
	case c >= 'a' && c <= 'f':
		return rune(c-'a') + 10, true
	case c >= 'A' && c <= 'F':
		return rune(c-'A') + 10, true
	}
	return 0, false
}

// brokenSurrogates reports whether a well-formed JSON string has an unpaired
// surrogate escape, which decoding would silently replace.
func brokenSurrogates(raw []byte) bool {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return false
		}
		raw = raw[i+1:]
		if raw[0] != 'u' {
			raw = raw[1:]
			continue
		}
		first := codeUnit(raw[1:5])
		raw = raw[5:]
		if !utf16.IsSurrogate(first) {
			continue
		}
		if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' ||
			utf16.DecodeRune(first, codeUnit(raw[2:6])) == utf8.RuneError {
			return true
		}
		raw = raw[6:]
	}
}

func codeUnit(hex []byte) rune {
	var unit rune
	for _, c := range hex {
		digit, _ := hexDigit(c)
		unit = unit<<4 | digit
	}
	return unit
}

// isStorable reports whether databases can store the text: valid UTF-8 without NUL.
func isStorable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}
