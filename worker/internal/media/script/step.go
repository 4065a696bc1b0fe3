// Package script makes scripts of what was done in a recorded session: for Playwright Test, for Playwright in Python, and for
// Selenium in Python.
//
// Texts of steps come from pages. They are only ever in string literals of a script.
package script

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
)

// Kind is what was done.
type Kind string

// The kinds.
const (
	Tab     Kind = "tab" // a tab was opened: by a step in Opener, or by the client or the person
	Close   Kind = "close"
	Goto    Kind = "goto" // URL
	Back    Kind = "back"
	Forward Kind = "forward"
	Reload  Kind = "reload"
	Arrive  Kind = "arrive" // at URL, because of the step before

	Click       Kind = "click"
	DoubleClick Kind = "dblclick"
	RightClick  Kind = "rightclick"
	MiddleClick Kind = "middleclick"
	Fill        Kind = "fill" // Values has the text
	Set         Kind = "set"  // as Fill, of a field into which no text is typed, such as a date
	Select      Kind = "select"
	Check       Kind = "check"
	Uncheck     Kind = "uncheck"
	Press       Kind = "press" // Key, with its modifiers, such as Control+a; without Target: wherever the focus is
	Files       Kind = "files" // Values has names

	Accept  Kind = "accept" // a dialog
	Dismiss Kind = "dismiss"

	Missing Kind = "missing" // steps before the next one are not known
)

// Step is something that was done in a tab.
type Step struct {
	Kind   Kind      `json:"kind"`
	Tab    string    `json:"tab,omitempty"`
	Opener string    `json:"opener,omitempty"` // a tab
	Frames []Locator `json:"frames,omitempty"` // the elements of the frames around Target, the outermost first
	Target *Locator  `json:"target,omitempty"`
	URL    string    `json:"url,omitempty"`
	Key    string    `json:"key,omitempty"`
	Values []string  `json:"values,omitempty"` // texts, labels of options or names of files
	Secret bool      `json:"secret,omitempty"` // the value is not recorded
}

// Way is how an element is found.
type Way string

// The ways, the best one first.
const (
	ByRole        Way = "role" // and Name
	ByTestID      Way = "testid"
	ByLabel       Way = "label"
	ByPlaceholder Way = "placeholder"
	ByText        Way = "text"
	ByID          Way = "id"
	ByCSS         Way = "css"
)

// Locator says which element of a document was used.
type Locator struct {
	Way    Way    `json:"by"`
	Role   string `json:"role,omitempty"`
	Name   string `json:"name,omitempty"`   // the accessible name, or what Way names
	Count  int    `json:"count,omitempty"`  // of the elements that are found in this way
	Index  int    `json:"index,omitempty"`  // of the element among them
	Path   string `json:"path"`             // another way for clients without roles: CSS, or XPath, which begins with / or (
	Shadow bool   `json:"shadow,omitempty"` // Path is in a shadow root
}

// mask takes the place of what is hidden in a recording.
const mask = "***"

// Read reads steps, one per line. An incomplete last line does not count.
func Read(r io.Reader) (steps []Step, err error) {
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return steps, nil
		}
		if err != nil {
			return nil, err
		}
		var s Step
		if err := json.Unmarshal(line, &s); err != nil {
			return nil, err
		}
		if !s.isComplete() {
			continue
		}
		s.Secret = s.Secret || slices.ContainsFunc(s.Values, func(value string) bool { return strings.Contains(value, mask) })
		steps = append(steps, s)
	}
}

// isComplete reports whether a step has what its kind needs: a page that has taken over its renderer can report anything.
func (s Step) isComplete() bool {
	switch s.Kind {
	case Fill, Set:
		return s.Target != nil && (s.Secret || len(s.Values) > 0)
	case Click, DoubleClick, RightClick, MiddleClick, Select, Check, Uncheck, Files:
		return s.Target != nil
	}
	return s.Target != nil || !s.Secret
}

// tidy returns the steps that a person would write: what belongs together is one step.
func tidy(steps []Step) (tidied []Step) {
	used := map[string]bool{}
	for _, s := range steps {
		used[s.Tab] = used[s.Tab] || s.Kind != Tab && s.Kind != Close && s.Kind != Arrive
	}
	for _, s := range steps {
		if !used[s.Tab] && s.Kind != Missing {
			continue
		}
		if n := len(tidied); n > 0 && s.replaces(tidied[n-1]) {
			tidied = tidied[:n-1]
		}
		tidied = append(tidied, s)
	}
	end := len(tidied)
	for end > 0 && tidied[end-1].Kind == Close { // the end of the session
		end--
	}
	last := max(end-1, 0) // a script waits for the page that it ends with
	return append(slices.DeleteFunc(slices.Clone(tidied[:last]), func(s Step) bool { return s.Kind == Arrive }), tidied[last:end]...)
}

// replaces reports whether a step includes the one before.
func (s Step) replaces(before Step) bool {
	if s.Tab != before.Tab || s.Target == nil || before.Target == nil || s.Target.Path != before.Target.Path || !slices.Equal(s.Frames, before.Frames) {
		return false
	}
	switch s.Kind {
	case Fill, Set, Select:
		return before.Kind == Click || before.Kind == s.Kind
	case DoubleClick:
		return before.Kind == Click
	case Files:
		return before.Kind == Click
	}
	return false
}
