package keys

import "golang.org/x/text/encoding/charmap"

// legacyAlphabets are the X keysyms from before Unicode: the high byte selects an
// alphabet, the low byte a code in it.
var legacyAlphabets = map[uint32]*charmap.Charmap{
	0x01: charmap.ISO8859_2,
	0x02: charmap.ISO8859_3,
	0x03: charmap.ISO8859_4,
	0x05: charmap.ISO8859_6,
	0x0c: charmap.ISO8859_8,
	0x0d: charmap.Windows874,
	0x13: charmap.ISO8859_15,
}

// cyrillicExtras are 0x06a1 to 0x06bf, before the letters in KOI8-R's order.
var cyrillicExtras = []rune("ђѓёєѕіїјљњћќґўџ№ЂЃЁЄЅІЇЈЉЊЋЌҐЎЏ")

// greekAccented are 0x07a1 to 0x07bb; a space means no key.
var greekAccented = []rune("ΆΈΉΊΪ ΌΎΫ Ώ  ΅― άέήίϊΐόύϋΰώ")

// greekLetters are 0x07c1 to 0x07f9.
var greekLetters = []rune("ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣ ΤΥΦΧΨΩ       αβγδεζηθικλμνξοπρσςτυφχψω")

// legacyCharacter returns the character of a legacy keysym. noVNC, for example,
// prefers these keysyms.
func legacyCharacter(keysym uint32) (rune, bool) {
	switch {
	case keysym >= 0x06a1 && keysym <= 0x06bf:
		return cyrillicExtras[keysym-0x06a1], true
	case keysym >= 0x06c0 && keysym <= 0x06ff:
		return charmap.KOI8R.DecodeByte(byte(keysym)), true
	case keysym >= 0x07a1 && keysym <= 0x07bb:
		r := greekAccented[keysym-0x07a1]
		return r, r != ' '
	case keysym >= 0x07c1 && keysym <= 0x07f9:
		r := greekLetters[keysym-0x07c1]
		return r, r != ' '
	case keysym >= 0x20a0 && keysym <= 0x20ac: // currencies have their own code points
		return rune(keysym), true
	}
	alphabet, low := legacyAlphabets[keysym>>8], byte(keysym)
	if alphabet == nil || low < 0xa0 {
		return 0, false
	}
	r := alphabet.DecodeByte(low)
	return r, r != '\ufffd'
}
