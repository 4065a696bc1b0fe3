package script

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Language is a language of scripts, with its library.
type Language string

// The languages.
const (
	PlaywrightTS Language = "playwright-ts"
	PlaywrightPy Language = "playwright-py"
	SeleniumPy   Language = "selenium-py"
)

// FileName returns a name for a script.
func (l Language) FileName() string {
	if l == PlaywrightTS {
		return "session.spec.ts"
	}
	return "test_session.py"
}

// Make returns a script that does the steps again.
func Make(l Language, steps []Step) string {
	actions := plan(tidy(steps))
	if l == SeleniumPy {
		return seleniumScript(actions)
	}
	return playwrightScript(l, actions)
}

// action is a step with what follows from it.
type action struct {
	Step
	page, opens string // variables of the tab, and of the one that the step opens
	dialogs     []Kind // Accept or Dismiss
	secret      string // environment variable
}

// plan names the tabs and the secrets, and joins tabs and dialogs to the steps that open them.
func plan(steps []Step) (actions []action) {
	pages, secrets := map[string]string{}, map[string]string{}
	latest := map[string]int{} // action of a tab
	for _, s := range steps {
		name, known := pages[s.Tab]
		if !known && s.Kind != Missing {
			if name = "page"; len(pages) > 0 {
				name = fmt.Sprintf("page%d", len(pages))
			}
			pages[s.Tab] = name
		}
		cause, ok := latest[s.Opener]
		before, follows := latest[s.Tab]
		switch {
		case s.Kind == Tab && (known || name == "page"): // a script begins with the first one
			continue
		case s.Kind == Tab && ok && actions[cause].opens == "":
			actions[cause].opens = name
			continue
		case s.Kind == Accept || s.Kind == Dismiss:
			if follows {
				actions[before].dialogs = append(actions[before].dialogs, s.Kind)
			}
			continue
		}
		a := action{Step: s, page: name}
		if s.Secret {
			key := fmt.Sprint(s.Frames, *s.Target)
			if secrets[key] == "" {
				secrets[key] = fmt.Sprintf("PASSWORD_%d", len(secrets)+1)
			}
			a.secret = secrets[key]
		}
		actions = append(actions, a)
		latest[s.Tab] = len(actions) - 1
	}
	return actions
}

// note returns what a reader must know of the way in which an element is found; "" if it is clear. roles says whether the script
// finds elements by their roles.
func (a action) note(roles bool) string {
	switch t := a.Target; {
	case a.Kind == Missing:
		return "Steps are missing here: they came too fast, or there were too many."
	case a.Kind == Files:
		return "The files must be in the current directory."
	case t == nil:
		return ""
	case t.Shadow && !roles:
		return "The element is in a shadow root, where Selenium does not find it in this way."
	case t.Count > 1:
		return fmt.Sprintf("Ambiguous: %d elements were found in this way; number %d was used.", t.Count, t.Index+1)
	case roles && (t.Way == ByID || t.Way == ByCSS):
		return "The element has no accessible name."
	}
	return ""
}

// secretNames returns the environment variables that a script reads.
func secretNames(actions []action) (names []string) {
	for _, a := range actions {
		if a.secret != "" && !slices.Contains(names, a.secret) {
			names = append(names, a.secret)
		}
	}
	return names
}

// preface returns the lines of the comment at the beginning of a script.
func preface(comment string, actions []action) string {
	text := comment + " What was done in a session of svc.\n"
	if names := secretNames(actions); len(names) > 0 {
		text += comment + " Set these environment variables to what was typed into password fields: " + strings.Join(names, ", ") + ".\n"
	}
	return text
}

// quoteTS returns a string literal of TypeScript.
func quoteTS(text string) string {
	return quote(text, '\'', func(r rune) string {
		var escaped strings.Builder
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&escaped, `\u%04x`, unit)
		}
		return escaped.String()
	})
}

// quotePy returns a string literal of Python.
func quotePy(text string) string {
	return quote(text, '"', func(r rune) string {
		if r > 0xffff {
			return fmt.Sprintf(`\U%08x`, r)
		}
		return fmt.Sprintf(`\u%04x`, r)
	})
}

// quote escapes what ends a literal or a line, and what is not visible, such as marks that change the direction of text.
func quote(text string, mark rune, escape func(rune) string) string {
	var quoted strings.Builder
	quoted.WriteRune(mark)
	for _, r := range text {
		switch {
		case r == mark || r == '\\':
			quoted.WriteString(`\` + string(r))
		case r == '\n':
			quoted.WriteString(`\n`)
		case !unicode.IsPrint(r):
			quoted.WriteString(escape(r))
		default:
			quoted.WriteRune(r)
		}
	}
	quoted.WriteRune(mark)
	return quoted.String()
}
