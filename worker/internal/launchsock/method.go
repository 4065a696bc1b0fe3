package launchsock

import (
	"bytes"
	"encoding/json"
	"strings"
)

// ours is what begins the methods that the worker answers itself.
const ours = "Svc."

// verdict is whose a message is.
type verdict int

const (
	unsure   verdict = iota // more of it has to come
	browsers                // it is for the browser
	workers                 // its method begins with Svc.
)

// judge looks into the beginning of a message, a JSON object, for its method.
// What is no such object is the browser's to refuse.
func judge(prefix []byte) verdict {
	s := scan{rest: prefix}
	if v := s.punctuation('{'); v != unsure || s.short {
		return v
	}
	for {
		name, ok := s.text()
		if !ok {
			return s.verdict()
		}
		if v := s.punctuation(':'); v != unsure || s.short {
			return v
		}
		if name == "method" {
			return s.method()
		}
		if !s.skip() {
			return s.verdict()
		}
		if v := s.punctuation(','); v != unsure || s.short {
			return v
		}
	}
}

// scan reads JSON that may break off anywhere.
type scan struct {
	rest  []byte
	short bool // it broke off
}

func (s *scan) verdict() verdict {
	if s.short {
		return unsure
	}
	return browsers
}

func (s *scan) space() {
	s.rest = bytes.TrimLeft(s.rest, " \t\r\n")
	s.short = len(s.rest) == 0
}

// punctuation takes c; without it the message is the browser's.
func (s *scan) punctuation(c byte) verdict {
	s.space()
	if s.short {
		return unsure
	}
	if s.rest[0] != c {
		return browsers
	}
	s.rest = s.rest[1:]
	return unsure
}

// quoted finds the string that begins here and returns its length with quotes;
// 0 when it has no end.
func (s *scan) quoted() int {
	for i := 1; i < len(s.rest); i++ {
		switch s.rest[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	s.short = true
	return 0
}

// text takes a string.
func (s *scan) text() (string, bool) {
	s.space()
	if s.short || s.rest[0] != '"' {
		return "", false
	}
	n := s.quoted()
	if n == 0 {
		return "", false
	}
	var text string
	err := json.Unmarshal(s.rest[:n], &text)
	s.rest = s.rest[n:]
	return text, err == nil
}

// method judges by the string that begins here. Its end need not have come.
func (s *scan) method() verdict {
	s.space()
	switch {
	case s.short:
		return unsure
	case s.rest[0] != '"':
		return browsers
	case !bytes.Contains(s.rest[:min(len(s.rest), 1+6*len(ours))], []byte{'\\'}):
		if len(s.rest) <= len(ours) && bytes.HasPrefix([]byte(`"`+ours), s.rest) {
			return unsure
		}
		if bytes.HasPrefix(s.rest, []byte(`"`+ours)) {
			return workers
		}
		return browsers
	}
	text, ok := s.text()
	if ok && strings.HasPrefix(text, ours) {
		return workers
	}
	return s.verdict()
}

// skip takes a value of any kind.
func (s *scan) skip() bool {
	s.space()
	if s.short {
		return false
	}
	depth := 0
	for len(s.rest) > 0 {
		switch c := s.rest[0]; c {
		case '"':
			n := s.quoted()
			if n == 0 {
				return false
			}
			s.rest = s.rest[n:]
			if depth == 0 {
				return true
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth <= 0 {
				if depth == 0 {
					s.rest = s.rest[1:]
				}
				return true
			}
		case ',':
			if depth == 0 {
				return true
			}
		}
		s.rest = s.rest[1:]
	}
	s.short = true
	return false
}
