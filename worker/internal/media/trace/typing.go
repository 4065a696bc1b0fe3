package trace

import (
	"cmp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// focusMargin is how exact the times of pages are, in milliseconds.
const focusMargin = 2

// maxHidden limits a text that is not shown, in bytes. A longer one is hidden in parts.
const maxHidden = 128

// typedKey is a key or a text of an action.
type typedKey struct {
	call           callKey
	text           string
	special        bool // it is the name of a key
	sent, answered time.Time
	isPlain        bool // it is known to be for a field without secrets
	isJudged       bool
	field          float64 // since when the field had the focus; 0: unknown
	isSecret       bool    // it is known to be for a field for secrets
}

// judge finds out which keys were for fields without secrets. The log must cover the whole time until the key was answered.
func (a *action) judge(log focusLog) {
	for _, k := range a.keys {
		start, end := millis(k.sent)-focusMargin, millis(k.answered)
		if k.isJudged || k.answered.IsZero() || log.Since > millis(k.sent) || log.Now < end {
			continue
		}
		k.isJudged, k.isPlain = true, true
		for i, focus := range log.Log {
			replaced := i+1 < len(log.Log) && log.Log[i+1].T <= start
			if replaced || focus.T > end {
				continue
			}
			k.field = cmp.Or(k.field, focus.T)
			k.isPlain = k.isPlain && (focus.Kind == "text" || focus.Kind == "none")
			k.isSecret = k.isSecret || focus.Kind == "secret"
		}
	}
}

// unjudged reports whether a check can still tell something about a key.
func (a *action) unjudged() bool {
	for _, k := range a.keys {
		if !k.isJudged && !k.special {
			return true
		}
	}
	return false
}

// hidden returns the texts that are not shown: what was typed until a key without text, or until another field had the focus. While
// more can be typed, they include what the last field had after each key. With known, only texts of fields that are known to be for
// secrets.
func (a *action) hidden(unfinished, known bool) (texts []string) {
	var text string
	var earlier []string
	end := func() {
		if text != "" {
			texts = append(texts, text)
		}
		text, earlier = "", nil
	}
	field := 0.0
	for _, k := range a.keys {
		if k.isPlain || known && !k.isSecret {
			end()
			continue
		}
		if k.field != 0 && field != 0 && k.field != field {
			end()
		}
		field = cmp.Or(k.field, field)
		for _, r := range k.hidden() {
			switch {
			case r == backspace:
				_, last := utf8.DecodeLastRuneInString(text)
				text = text[:len(text)-last]
			case unicode.IsControl(r) || isKey(r):
				end()
			default:
				text += string(r)
			}
			if len(text) >= maxHidden {
				end()
			}
		}
		earlier = append(earlier, text)
	}
	if unfinished {
		return append(texts, earlier...)
	}
	end()
	return texts
}

// hidden returns the text of a key as WebDriver sends it; "" if it is shown.
func (k *typedKey) hidden() string {
	switch {
	case k.isPlain:
		return ""
	case k.special && k.text == "Backspace":
		return string(backspace)
	case k.special:
		return "\n"
	}
	return k.text
}

// describeKeys sets the title and the parameters to what was typed, without what may be secret.
func (a *action) describeKeys() {
	var text strings.Builder
	masked := false
	for _, k := range a.keys {
		switch {
		case k.special && (k.isPlain || len(a.keys) == 1 || !masked):
			text.WriteString("[" + k.text + "]")
		case k.isPlain:
			text.WriteString(namedKeys(k.text))
			masked = false
		case !masked:
			text.WriteString(mask)
			masked = true
		}
	}
	a.title, a.params = "Type {text}", object{"text": cut(text.String(), maxParam)}
	if len(a.keys) == 1 && a.keys[0].special {
		a.title, a.params = "Press {key}", object{"key": a.keys[0].text}
	}
}
