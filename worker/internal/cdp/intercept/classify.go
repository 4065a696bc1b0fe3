package intercept

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// MethodPrefix is the prefix of the methods that the worker answers itself.
const MethodPrefix = "Svc."

// The intercepted methods.
const (
	createContext    = "Target.createBrowserContext"
	disposeContext   = "Target.disposeBrowserContext"
	createTarget     = "Target.createTarget"
	setFiles         = "DOM.setFileInputFiles"
	setDownloads     = "Browser.setDownloadBehavior"
	setPageDownloads = "Page.setDownloadBehavior"
	loadExtension    = "Extensions.loadUnpacked"
	closeBrowser     = "Browser.close"
	exposeProtocol   = "Target.exposeDevToolsProtocol" // a page makes calls then
	sendToTarget     = "Target.sendMessageToTarget"    // a call in a text
	callFunction     = "Runtime.callFunctionOn"        // after a refused path

	requestHuman = MethodPrefix + "requestHuman"
	cancelHuman  = MethodPrefix + "cancelHuman"
	fillSecret   = MethodPrefix + "fillSecret"
)

var interceptedMethods = []string{
	createContext, disposeContext, createTarget, setFiles, setDownloads, setPageDownloads, loadExtension, closeBrowser,
	exposeProtocol, sendToTarget, fillSecret,
}

// recipient is the recipient of a message.
type recipient int

const (
	undecided     recipient = iota // more bytes are needed
	forBrowser                     // it is for the browser
	forWorker                      // its method begins with Svc.
	intercepted                    // Calls handles it
	aboutHandover                  // likewise, with an answer that may come later
	evaluation                     // Calls handles it after a refused path; else it is for the browser
)

// classify finds the recipient from the beginning of a message, a JSON object.
// Invalid messages go to the browser, which refuses them.
func classify(prefix []byte) recipient {
	s := scanner{rest: prefix}
	if v := s.expect('{'); v != undecided || s.truncated {
		return v
	}
	for {
		name, ok := s.readString()
		if !ok {
			return s.fallback()
		}
		if v := s.expect(':'); v != undecided || s.truncated {
			return v
		}
		if string(name) == "method" {
			return s.classifyMethod()
		}
		if !s.skipValue() {
			return s.fallback()
		}
		if v := s.expect(','); v != undecided || s.truncated {
			return v
		}
	}
}

// scanner reads JSON that may be truncated anywhere.
type scanner struct {
	rest      []byte
	truncated bool // the JSON ended early
}

func (s *scanner) fallback() recipient {
	if s.truncated {
		return undecided
	}
	return forBrowser
}

func (s *scanner) skipSpace() {
	for len(s.rest) > 0 && (s.rest[0] == ' ' || s.rest[0] == '\t' || s.rest[0] == '\r' || s.rest[0] == '\n') {
		s.rest = s.rest[1:]
	}
	s.truncated = len(s.rest) == 0
}

// expect consumes c. Without it, the message goes to the browser.
func (s *scanner) expect(c byte) recipient {
	s.skipSpace()
	if s.truncated {
		return undecided
	}
	if s.rest[0] != c {
		return forBrowser
	}
	s.rest = s.rest[1:]
	return undecided
}

// stringLength returns the length of the next string including its quotes, or 0 if
// the string is incomplete.
func (s *scanner) stringLength() int {
	for i := 1; i < len(s.rest); i++ {
		switch s.rest[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	s.truncated = true
	return 0
}

// readString consumes a string.
func (s *scanner) readString() ([]byte, bool) {
	s.skipSpace()
	if s.truncated || s.rest[0] != '"' {
		return nil, false
	}
	n := s.stringLength()
	if n == 0 {
		return nil, false
	}
	raw := s.rest[:n]
	s.rest = s.rest[n:]
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : n-1], true
	}
	var text string
	err := json.Unmarshal(raw, &text)
	return []byte(text), err == nil
}

// classifyMethod finds the recipient from the method, which may be incomplete.
func (s *scanner) classifyMethod() recipient {
	s.skipSpace()
	if s.truncated {
		return undecided
	}
	if s.rest[0] != '"' {
		return forBrowser
	}
	partial := s.rest[1:]
	if method, ok := s.readString(); ok {
		return recipientOf(string(method))
	}
	if !s.truncated {
		return forBrowser
	}
	mayBe := func(name string) bool {
		n := min(len(partial), len(name))
		return string(partial[:n]) == name[:n]
	}
	if mayBe(MethodPrefix) || mayBe(callFunction) || slices.ContainsFunc(interceptedMethods, mayBe) {
		return undecided
	}
	if bytes.IndexByte(partial, '\\') >= 0 {
		return undecided
	}
	return forBrowser
}

func recipientOf(method string) recipient {
	switch {
	case slices.Contains(interceptedMethods, method):
		return intercepted
	case method == callFunction:
		return evaluation
	case method == requestHuman, method == cancelHuman:
		return aboutHandover
	case strings.HasPrefix(method, MethodPrefix):
		return forWorker
	}
	return forBrowser
}

// skipValue consumes a value of any type.
func (s *scanner) skipValue() bool {
	s.skipSpace()
	if s.truncated {
		return false
	}
	depth := 0
	for len(s.rest) > 0 {
		switch c := s.rest[0]; c {
		case '"':
			n := s.stringLength()
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
	s.truncated = true
	return false
}
