package trace

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/browser-svc/svc/worker/internal/media/har"
)

const (
	mask = "***"

	minSecret = 4    // bytes: a shorter text is part of other words
	maxTyped  = 1000 // texts
)

// secrets are texts that must not be in a trace.
type secrets struct {
	filled   func() []string   // the values that the worker has filled; nil: none
	typed    []typedText       // the latest ones
	redactor *har.Redactor     // of the present texts
	inLine   *strings.Replacer // finds them in a line
}

// typedText is a text that was typed with an action.
type typedText struct{ action, text string }

// set sets the texts of an action, in place of its earlier ones, and of the oldest ones of others if there are too many.
func (s *secrets) set(action string, texts []string) {
	s.typed = slices.DeleteFunc(s.typed, func(t typedText) bool { return t.action == action })
	for _, text := range texts {
		if len(text) >= minSecret {
			s.typed = append(s.typed, typedText{action, text})
		}
	}
	s.typed = s.typed[max(0, len(s.typed)-maxTyped):]
}

// texts returns all of them.
func (s *secrets) texts() (texts []string) {
	if s.filled != nil {
		texts = slices.Clone(s.filled())
	}
	for _, t := range s.typed {
		texts = append(texts, t.text)
	}
	return texts
}

// update prepares the removal of the present texts.
func (s *secrets) update() {
	texts := s.texts()
	if s.redactor != nil && slices.Equal(texts, s.redactor.Values()) {
		return
	}
	s.redactor = har.NewRedactor(texts)
	var pairs []string
	for _, form := range s.redactor.Forms() {
		pairs = append(pairs, inJSON(form), mask)
	}
	s.inLine = strings.NewReplacer(pairs...)
}

// remove returns a line without the secrets.
func (s *secrets) remove(line []byte) []byte {
	s.update()
	if text := string(line); s.inLine.Replace(text) == text {
		return line
	}
	var v any
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	if decoder.Decode(&v) != nil {
		return nil
	}
	var cleaned bytes.Buffer
	encoder := json.NewEncoder(&cleaned)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(s.clean(v)) != nil {
		return nil
	}
	return cleaned.Bytes()
}

// inJSON returns a text as in a line, without quotes.
func inJSON(text string) string {
	var raw bytes.Buffer
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text)                    // a text cannot fail
	return string(raw.Bytes()[1 : raw.Len()-2]) // without the quotes and the newline
}

// clean returns a decoded value without the secrets. The names of its members stay.
func (s *secrets) clean(v any) any {
	switch v := v.(type) {
	case string:
		return s.redactor.Text(v)
	case []any:
		for i := range v {
			v[i] = s.clean(v[i])
		}
	case map[string]any:
		for name := range v {
			if name != "type" { // of lines
				v[name] = s.clean(v[name])
			}
		}
	}
	return v
}
