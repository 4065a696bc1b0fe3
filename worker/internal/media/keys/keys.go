// Package keys has the keys of a keyboard as pages see them: by X keysym and by name.
package keys

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The modifier bits of CDP.
const (
	Alt = 1 << iota
	Control
	Meta
	Shift
)

// Input contains the parameters of Input.dispatchKeyEvent.
type Input struct {
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

// Key is a key as pages see it: the key and code of DOM events, the Windows key code,
// and the typed text.
type Key struct {
	Name, Code string
	KeyCode    int
	Text       string
	Location   int // 1 left, 2 right, 3 keypad
	Modifier   int
}

// Event returns the event of pressing or releasing the key while modifiers are held.
func (k Key) Event(down bool, modifiers int) Input {
	input := Input{
		Type: "keyUp", Key: k.Name, Code: k.Code, KeyCode: k.KeyCode,
		Modifiers: modifiers, Location: k.Location, IsKeypad: k.Location == 3,
	}
	if !down {
		return input
	}
	input.Type = "rawKeyDown"
	if k.Text != "" && modifiers&(Control|Alt|Meta) == 0 {
		input.Type, input.Text, input.UnmodifiedText = "keyDown", k.Text, k.Text
	}
	return input
}

// Named returns the key with a name of the DOM's KeyboardEvent.key, such as Enter, F5 or
// a character.
func Named(name string) (Key, bool) {
	if name == "Space" {
		name = " "
	}
	if r, size := utf8.DecodeRuneInString(name); size == len(name) && r != utf8.RuneError && unicode.IsPrint(r) {
		return ofCharacter(r), true
	}
	for keysym := uint32(keysymF1); keysym < keysymF1+24; keysym++ {
		if k := Lookup(keysym); k.Name == name {
			return k, true
		}
	}
	for _, k := range namedKeys {
		if k.Name == name && k.Location != 2 {
			return k, true
		}
	}
	return Key{}, false
}

// Lookup returns the key of an X keysym. Characters have the codes of a US
// keyboard; other characters have none.
func Lookup(keysym uint32) Key {
	if k, ok := namedKeys[keysym]; ok {
		return k
	}
	if n := keysym - keysymF1; keysym >= keysymF1 && n < 24 {
		name := "F" + strconv.Itoa(int(n)+1)
		return Key{Name: name, Code: name, KeyCode: 112 + int(n)}
	}
	if k, ok := keypadKey(keysym); ok {
		return k
	}
	r, ok := characterOf(keysym)
	if !ok {
		return Key{Name: "Unidentified"}
	}
	return ofCharacter(r)
}

func ofCharacter(r rune) Key {
	k := Key{Name: string(r), Text: string(r)}
	k.Code, k.KeyCode = usKey(r)
	return k
}

const (
	keysymF1      = 0xffbe
	keysymKeypad0 = 0xffb0
	unicodeKeysym = 0x01000000
)

func keypadKey(keysym uint32) (Key, bool) {
	if n := keysym - keysymKeypad0; keysym >= keysymKeypad0 && n <= 9 {
		digit := strconv.Itoa(int(n))
		return Key{Name: digit, Code: "Numpad" + digit, KeyCode: 96 + int(n), Text: digit, Location: 3}, true
	}
	key, ok := keypadSigns[keysym]
	return key, ok
}

// characterOf returns the character of a keysym. Latin-1 and Unicode keysyms contain
// code points, older alphabets have tables.
func characterOf(keysym uint32) (rune, bool) {
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
var namedKeys = map[uint32]Key{
	0xff08: {Name: "Backspace", Code: "Backspace", KeyCode: 8},
	0xff09: {Name: "Tab", Code: "Tab", KeyCode: 9},
	0xfe20: {Name: "Tab", Code: "Tab", KeyCode: 9}, // with Shift
	0xff0d: {Name: "Enter", Code: "Enter", KeyCode: 13, Text: "\r"},
	0xff13: {Name: "Pause", Code: "Pause", KeyCode: 19},
	0xff14: {Name: "ScrollLock", Code: "ScrollLock", KeyCode: 145},
	0xff1b: {Name: "Escape", Code: "Escape", KeyCode: 27},
	0xff50: {Name: "Home", Code: "Home", KeyCode: 36},
	0xff51: {Name: "ArrowLeft", Code: "ArrowLeft", KeyCode: 37},
	0xff52: {Name: "ArrowUp", Code: "ArrowUp", KeyCode: 38},
	0xff53: {Name: "ArrowRight", Code: "ArrowRight", KeyCode: 39},
	0xff54: {Name: "ArrowDown", Code: "ArrowDown", KeyCode: 40},
	0xff55: {Name: "PageUp", Code: "PageUp", KeyCode: 33},
	0xff56: {Name: "PageDown", Code: "PageDown", KeyCode: 34},
	0xff57: {Name: "End", Code: "End", KeyCode: 35},
	0xff61: {Name: "PrintScreen", Code: "PrintScreen", KeyCode: 44},
	0xff63: {Name: "Insert", Code: "Insert", KeyCode: 45},
	0xff67: {Name: "ContextMenu", Code: "ContextMenu", KeyCode: 93},
	0xff7f: {Name: "NumLock", Code: "NumLock", KeyCode: 144},
	0xffff: {Name: "Delete", Code: "Delete", KeyCode: 46},

	0xffe1: {Name: "Shift", Code: "ShiftLeft", KeyCode: 16, Location: 1, Modifier: Shift},
	0xffe2: {Name: "Shift", Code: "ShiftRight", KeyCode: 16, Location: 2, Modifier: Shift},
	0xffe3: {Name: "Control", Code: "ControlLeft", KeyCode: 17, Location: 1, Modifier: Control},
	0xffe4: {Name: "Control", Code: "ControlRight", KeyCode: 17, Location: 2, Modifier: Control},
	0xffe5: {Name: "CapsLock", Code: "CapsLock", KeyCode: 20},
	0xffe7: {Name: "Meta", Code: "MetaLeft", KeyCode: 91, Location: 1, Modifier: Meta},
	0xffe8: {Name: "Meta", Code: "MetaRight", KeyCode: 92, Location: 2, Modifier: Meta},
	0xffe9: {Name: "Alt", Code: "AltLeft", KeyCode: 18, Location: 1, Modifier: Alt},
	0xffea: {Name: "Alt", Code: "AltRight", KeyCode: 18, Location: 2, Modifier: Alt},
	0xffeb: {Name: "Meta", Code: "MetaLeft", KeyCode: 91, Location: 1, Modifier: Meta},
	0xffec: {Name: "Meta", Code: "MetaRight", KeyCode: 92, Location: 2, Modifier: Meta},
	0xfe03: {Name: "AltGraph", Code: "AltRight", KeyCode: 18, Location: 2}, // typed characters have their own keysyms
}

// keypadSigns are the keys of the keypad except its digits.
var keypadSigns = map[uint32]Key{
	0xff8d: {Name: "Enter", Code: "NumpadEnter", KeyCode: 13, Text: "\r", Location: 3},
	0xff95: {Name: "Home", Code: "Numpad7", KeyCode: 36, Location: 3},
	0xff96: {Name: "ArrowLeft", Code: "Numpad4", KeyCode: 37, Location: 3},
	0xff97: {Name: "ArrowUp", Code: "Numpad8", KeyCode: 38, Location: 3},
	0xff98: {Name: "ArrowRight", Code: "Numpad6", KeyCode: 39, Location: 3},
	0xff99: {Name: "ArrowDown", Code: "Numpad2", KeyCode: 40, Location: 3},
	0xff9a: {Name: "PageUp", Code: "Numpad9", KeyCode: 33, Location: 3},
	0xff9b: {Name: "PageDown", Code: "Numpad3", KeyCode: 34, Location: 3},
	0xff9c: {Name: "End", Code: "Numpad1", KeyCode: 35, Location: 3},
	0xff9e: {Name: "Insert", Code: "Numpad0", KeyCode: 45, Location: 3},
	0xff9f: {Name: "Delete", Code: "NumpadDecimal", KeyCode: 46, Location: 3},
	0xffaa: {Name: "*", Code: "NumpadMultiply", KeyCode: 106, Text: "*", Location: 3},
	0xffab: {Name: "+", Code: "NumpadAdd", KeyCode: 107, Text: "+", Location: 3},
	0xffad: {Name: "-", Code: "NumpadSubtract", KeyCode: 109, Text: "-", Location: 3},
	0xffae: {Name: ".", Code: "NumpadDecimal", KeyCode: 110, Text: ".", Location: 3},
	0xffaf: {Name: "/", Code: "NumpadDivide", KeyCode: 111, Text: "/", Location: 3},
}
