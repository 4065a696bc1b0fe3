package trace

import (
	"strings"
	"time"
)

// focusMargin is how exact the times of pages are, in milliseconds.
const focusMargin = 2

// typedKey is a key or a text of an action.
type typedKey struct {
	text           string
	special        bool // it is the name of a key
	sent, answered time.Time
	isPlain        bool // it is known to be for a field without secrets
	isJudged       bool
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
			if !replaced && focus.T <= end && focus.Kind != "text" && focus.Kind != "none" {
				k.isPlain = false
			}
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

// hidden returns the text that is not shown.
func (a *action) hidden() string {
	var text strings.Builder
	for _, k := range a.keys {
		if !k.isPlain && !k.special {
			text.WriteString(k.text)
		}
	}
	return text.String()
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
			text.WriteString(k.text)
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
