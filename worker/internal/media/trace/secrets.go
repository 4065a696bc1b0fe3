package trace

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

const (
	mask = "***"

	minSecret  = 4 // bytes: a shorter text is part of other words
	maxSecrets = 200
)

// secrets are texts that must not be in a trace.
type secrets struct{ texts []string }

// add adds a text, as it is and as in URLs.
func (s *secrets) add(secret string) {
	for _, text := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret)} {
		if len(text) >= minSecret && len(s.texts) < maxSecrets && !slices.Contains(s.texts, text) {
			s.texts = append(s.texts, text)
		}
	}
	slices.SortFunc(s.texts, func(a, b string) int { return len(b) - len(a) })
}

// remove returns a line without the secrets.
func (s *secrets) remove(line []byte) []byte {
	if !slices.ContainsFunc(s.texts, func(text string) bool { return bytes.Contains(line, inJSON(text)) }) {
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
func inJSON(text string) []byte {
	var raw bytes.Buffer
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text)            // a text cannot fail
	return raw.Bytes()[1 : raw.Len()-2] // without the quotes and the newline
}

// clean returns a decoded value without the secrets. The names of its members stay.
func (s *secrets) clean(v any) any {
	switch v := v.(type) {
	case string:
		for _, text := range s.texts {
			v = strings.ReplaceAll(v, text, mask)
		}
		return v
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
