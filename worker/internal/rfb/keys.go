package rfb

import (
	"strconv"
	"strings"
	"unicode"
)

// The modifier bits of CDP.
const (
	modAlt = 1 << iota
	modControl
	modMeta
	modShift
)

// keyInput contains the parameters of Input.dispatchKeyEvent.
type keyInput struct {
	Type           string `json:"type"`
	Key            string `json:"key"`
	Code           string `json:"code,omitempty"`
	Text           string `json:"text,omitempty"`
	UnmodifiedText string `json:"unmodifiedText,omitempty"`
	KeyCode        int    `json:"windowsVirtualKeyCode,omitempty"`
	Modifiers      int    `json:"modifiers"`
	Location       int    `json:"location,omitempty"`
	IsKeypad       bool   `json:"isKeypad,omitempty"`
	AutoRepeat     bool   `json:"autoRepeat,omitempty"`
}

// key is a key as pages see it: the key and code of DOM events, the Windows key code,
// and the typed text.
type key struct {
	key, code string
	keyCode   int
	text      string
	location  int // 1 left, 2 right, 3 keypad
	modifier  int
}

// keyboard records which keys are held.
type keyboard struct{ held map[uint32]bool }

// maxHeld limits the keys held at once.
const maxHeld = 256

// keyInput returns the event for a key and records whether the key is held.
func (k *keyboard) keyInput(m keyMessage) keyInput {
	of := lookupKey(m.keysym)
	repeated := k.held[m.keysym]
	if !m.down {
		delete(k.held, m.keysym)
	} else if len(k.held) < maxHeld {
		k.held[m.keysym] = true
	}
	in := keyInput{
		Type: "keyUp", Key: of.key, Code: of.code, KeyCode: of.keyCode,
		Modifiers: k.modifiers(), Location: of.location, IsKeypad: of.location == 3,
	}
	if !m.down {
		return in
	}
	in.Type, in.AutoRepeat = "rawKeyDown", repeated
	if of.text != "" && in.Modifiers&(modControl|modAlt|modMeta) == 0 {
		in.Type, in.Text, in.UnmodifiedText = "keyDown", of.text, of.text
	}
	return in
}

func (k *keyboard) modifiers() int {
	bits := 0
	for keysym := range k.held {
		bits |= namedKeys[keysym].modifier
	}
	return bits
}

// lookupKey returns the key of an X keysym. Characters have the codes of a US
// keyboard; other characters have none.
func lookupKey(keysym uint32) key {
	if k, ok := namedKeys[keysym]; ok {
		return k
	}
	if n := keysym - keysymF1; keysym >= keysymF1 && n < 24 {
		name := "F" + strconv.Itoa(int(n)+1)
		return key{key: name, code: name, keyCode: 112 + int(n)}
	}
	if k, ok := keypadKey(keysym); ok {
		return k
	}
	r, ok := character(keysym)
	if !ok {
		return key{key: "Unidentified"}
	}
	k := key{key: string(r), text: string(r)}
	k.code, k.keyCode = usKey(r)
	return k
}

const (
	keysymF1      = 0xffbe
	keysymKeypad0 = 0xffb0
	unicodeKeysym = 0x01000000
)

func keypadKey(keysym uint32) (key, bool) {
	if n := keysym - keysymKeypad0; keysym >= keysymKeypad0 && n <= 9 {
		digit := strconv.Itoa(int(n))
		return key{key: digit, code: "Numpad" + digit, keyCode: 96 + int(n), text: digit, location: 3}, true
	}
	of, ok := keypadSigns[keysym]
	return of, ok
}

// character returns the character of a keysym. Latin-1 and Unicode keysyms contain
// code points, older alphabets have tables.
func character(keysym uint32) (rune, bool) {
	switch {
	case keysym >= 0x20 && keysym <= 0x7e, keysym >= 0xa0 && keysym <= 0xff:
		return rune(keysym), true
	case keysym >= unicodeKeysym && keysym <= unicodeKeysym+unicode.MaxRune:
		r := rune(keysym - unicodeKeysym)
		return r, unicode.IsPrint(r)
	}
	return legacyCharacter(keysym)
}

// punctuation maps the other keys of a US keyboard to their plain and shifted
// characters.
var punctuation = []struct {
	characters, code string
	keyCode          int
}{
	{" ", "Space", 32},
	{")0", "Digit0", 48}, {"!1", "Digit1", 49}, {"@2", "Digit2", 50}, {"#3", "Digit3", 51}, {"$4", "Digit4", 52},
	{"%5", "Digit5", 53}, {"^6", "Digit6", 54}, {"&7", "Digit7", 55}, {"*8", "Digit8", 56}, {"(9", "Digit9", 57},
	{";:", "Semicolon", 186}, {"=+", "Equal", 187}, {",<", "Comma", 188}, {"-_", "Minus", 189}, {".>", "Period", 190},
	{"/?", "Slash", 191}, {"`~", "Backquote", 192}, {"[{", "BracketLeft", 219}, {`\|`, "Backslash", 220},
	{"]}", "BracketRight", 221}, {`'"`, "Quote", 222},
}

func usKey(r rune) (code string, keyCode int) {
	if upper := unicode.ToUpper(r); upper >= 'A' && upper <= 'Z' {
		return "Key" + string(upper), int(upper)
	}
	for _, p := range punctuation {
		if strings.ContainsRune(p.characters, r) {
			return p.code, p.keyCode
		}
	}
	return "", 0
}

// namedKeys are the keys that type no character.
var namedKeys = map[uint32]key{
	0xff08: {key: "Backspace", code: "Backspace", keyCode: 8},
	0xff09: {key: "Tab", code: "Tab", keyCode: 9},
	0xfe20: {key: "Tab", code: "Tab", keyCode: 9}, // with Shift
	0xff0d: {key: "Enter", code: "Enter", keyCode: 13, text: "\r"},
	0xff13: {key: "Pause", code: "Pause", keyCode: 19},
	0xff14: {key: "ScrollLock", code: "ScrollLock", keyCode: 145},
	0xff1b: {key: "Escape", code: "Escape", keyCode: 27},
	0xff50: {key: "Home", code: "Home", keyCode: 36},
	0xff51: {key: "ArrowLeft", code: "ArrowLeft", keyCode: 37},
	0xff52: {key: "ArrowUp", code: "ArrowUp", keyCode: 38},
	0xff53: {key: "ArrowRight", code: "ArrowRight", keyCode: 39},
	0xff54: {key: "ArrowDown", code: "ArrowDown", keyCode: 40},
	0xff55: {key: "PageUp", code: "PageUp", keyCode: 33},
	0xff56: {key: "PageDown", code: "PageDown", keyCode: 34},
	0xff57: {key: "End", code: "End", keyCode: 35},
	0xff61: {key: "PrintScreen", code: "PrintScreen", keyCode: 44},
	0xff63: {key: "Insert", code: "Insert", keyCode: 45},
	0xff67: {key: "ContextMenu", code: "ContextMenu", keyCode: 93},
	0xff7f: {key: "NumLock", code: "NumLock", keyCode: 144},
	0xffff: {key: "Delete", code: "Delete", keyCode: 46},

	0xffe1: {key: "Shift", code: "ShiftLeft", keyCode: 16, location: 1, modifier: modShift},
	0xffe2: {key: "Shift", code: "ShiftRight", keyCode: 16, location: 2, modifier: modShift},
	0xffe3: {key: "Control", code: "ControlLeft", keyCode: 17, location: 1, modifier: modControl},
	0xffe4: {key: "Control", code: "ControlRight", keyCode: 17, location: 2, modifier: modControl},
	0xffe5: {key: "CapsLock", code: "CapsLock", keyCode: 20},
	0xffe7: {key: "Meta", code: "MetaLeft", keyCode: 91, location: 1, modifier: modMeta},
	0xffe8: {key: "Meta", code: "MetaRight", keyCode: 92, location: 2, modifier: modMeta},
	0xffe9: {key: "Alt", code: "AltLeft", keyCode: 18, location: 1, modifier: modAlt},
	0xffea: {key: "Alt", code: "AltRight", keyCode: 18, location: 2, modifier: modAlt},
	0xffeb: {key: "Meta", code: "MetaLeft", keyCode: 91, location: 1, modifier: modMeta},
	0xffec: {key: "Meta", code: "MetaRight", keyCode: 92, location: 2, modifier: modMeta},
	0xfe03: {key: "AltGraph", code: "AltRight", keyCode: 18, location: 2}, // typed characters have their own keysyms
}

// keypadSigns are the keys of the keypad except its digits.
var keypadSigns = map[uint32]key{
	0xff8d: {key: "Enter", code: "NumpadEnter", keyCode: 13, text: "\r", location: 3},
	0xff95: {key: "Home", code: "Numpad7", keyCode: 36, location: 3},
	0xff96: {key: "ArrowLeft", code: "Numpad4", keyCode: 37, location: 3},
	0xff97: {key: "ArrowUp", code: "Numpad8", keyCode: 38, location: 3},
	0xff98: {key: "ArrowRight", code: "Numpad6", keyCode: 39, location: 3},
	0xff99: {key: "ArrowDown", code: "Numpad2", keyCode: 40, location: 3},
	0xff9a: {key: "PageUp", code: "Numpad9", keyCode: 33, location: 3},
	0xff9b: {key: "PageDown", code: "Numpad3", keyCode: 34, location: 3},
	0xff9c: {key: "End", code: "Numpad1", keyCode: 35, location: 3},
	0xff9e: {key: "Insert", code: "Numpad0", keyCode: 45, location: 3},
	0xff9f: {key: "Delete", code: "NumpadDecimal", keyCode: 46, location: 3},
	0xffaa: {key: "*", code: "NumpadMultiply", keyCode: 106, text: "*", location: 3},
	0xffab: {key: "+", code: "NumpadAdd", keyCode: 107, text: "+", location: 3},
	0xffad: {key: "-", code: "NumpadSubtract", keyCode: 109, text: "-", location: 3},
	0xffae: {key: ".", code: "NumpadDecimal", keyCode: 110, text: ".", location: 3},
	0xffaf: {key: "/", code: "NumpadDivide", keyCode: 111, text: "/", location: 3},
}
