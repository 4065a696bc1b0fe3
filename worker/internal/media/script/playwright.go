package script

import (
	"fmt"
	"strings"

	"github.com/browser-svc/svc/shared/lazy"
)

// playwright writes code for Playwright, in TypeScript or Python.
type playwright struct{ python bool }

type (
	code   string // that is no text
	option struct {
		name  string
		value any
	}
)

// upper is where the words of a name of TypeScript begin.
var upper = lazy.Regexp(`URL|[A-Z]`)

func (p playwright) name(name string) string {
	if !p.python {
		return name
	}
	return upper().ReplaceAllStringFunc(name, func(letter string) string { return "_" + strings.ToLower(letter) })
}

// literal returns the code of a value.
func (p playwright) literal(value any) string {
	switch v := value.(type) {
	case code:
		return string(v)
	case string:
		if p.python {
			return quotePy(v)
		}
		return quoteTS(v)
	case []string:
		var items []string
		for _, item := range v {
			items = append(items, p.literal(item))
		}
		if len(items) == 1 {
			return items[0]
		}
		return "[" + strings.Join(items, ", ") + "]"
	case bool:
		if p.python {
			return map[bool]string{true: "True", false: "False"}[v]
		}
	}
	return fmt.Sprint(value)
}

// call returns a call of a method. Options come last.
func (p playwright) call(object, method string, arguments ...any) string {
	var list, options []string
	for _, argument := range arguments {
		if o, ok := argument.(option); ok && p.python {
			list = append(list, o.name+"="+p.literal(o.value))
		} else if ok {
			options = append(options, o.name+": "+p.literal(o.value))
		} else {
			list = append(list, p.literal(argument))
		}
	}
	if len(options) > 0 {
		list = append(list, "{ "+strings.Join(options, ", ")+" }")
	}
	return object + "." + p.name(method) + "(" + strings.Join(list, ", ") + ")"
}

// locator returns the locator of a step.
func (p playwright) locator(a action) string {
	object, exact := a.page, option{"exact", true}
	for _, frame := range a.Frames {
		object = p.call(object, "frameLocator", frame.Path)
	}
	t := a.Target
	switch t.Way {
	case ByRole:
		object = p.call(object, "getByRole", t.Role, option{"name", t.Name}, exact)
	case ByTestID:
		object = p.call(object, "getByTestId", t.Name)
	case ByLabel:
		object = p.call(object, "getByLabel", t.Name, exact)
	case ByPlaceholder:
		object = p.call(object, "getByPlaceholder", t.Name, exact)
	case ByText:
		object = p.call(object, "getByText", t.Name, exact)
	default:
		object = p.call(object, "locator", t.Path)
	}
	if t.Count > 1 {
		object = p.call(object, "nth", t.Index)
	}
	return object
}

// methods are the methods for steps without arguments, of a locator or of a page.
var methods = map[Kind]string{
	Click: "click", DoubleClick: "dblclick", Check: "check", Uncheck: "uncheck", Back: "goBack", Forward: "goForward", Reload: "reload", Close: "close",
}

// do returns the call that does a step.
func (p playwright) do(a action) string {
	object := a.page
	if a.Target != nil {
		object = p.locator(a)
	}
	var value any = a.Values
	switch {
	case a.secret != "" && p.python:
		value = code(`os.environ["` + a.secret + `"]`)
	case a.secret != "":
		value = code("process.env." + a.secret + "!")
	}
	switch a.Kind {
	case Goto:
		return p.call(object, "goto", a.URL)
	case Arrive:
		if p.python {
			return p.call(object, "waitForURL", code("lambda url: url.startswith("+quotePy(a.URL)+")"))
		}
		return p.call("expect("+object+")", "toHaveURL", code("url => url.href.startsWith("+quoteTS(a.URL)+")"))
	case RightClick:
		return p.call(object, "click", option{"button", "right"})
	case MiddleClick:
		return p.call(object, "click", option{"button", "middle"})
	case Fill, Set:
		return p.call(object, "fill", value)
	case Select:
		if p.python && a.secret == "" {
			value = option{"label", value}
		} else if a.secret == "" && len(a.Values) == 1 {
			value = code("{ label: " + p.literal(value) + " }")
		} // a text is the value or the label of an option
		return p.call(object, "selectOption", value)
	case Files:
		return p.call(object, "setInputFiles", value)
	case Press:
		if a.Target == nil {
			object += ".keyboard"
		}
		return p.call(object, "press", a.Key)
	}
	return p.call(object, methods[a.Kind])
}

// statements returns the lines of a step.
func (p playwright) statements(a action) (lines []string) {
	comment, await, end, variable := "# ", "", "", ""
	if !p.python {
		comment, await, end, variable = "// ", "await ", ";", "const "
	}
	if note := a.note(true); note != "" {
		lines = append(lines, comment+note)
	}
	for _, d := range a.dialogs {
		answer := code("dialog => dialog." + string(d) + "()")
		if p.python {
			answer = code("lambda dialog: dialog." + string(d) + "()")
		}
		lines = append(lines, p.call(a.page, "once", "dialog", answer)+end)
	}
	switch {
	case a.Kind == Missing:
		return lines
	case a.Kind == Tab:
		context := "page.context"
		if !p.python {
			context += "()"
		}
		return append(lines, variable+a.page+" = "+await+p.call(context, "newPage")+end)
	case a.opens != "" && p.python:
		return append(lines, "with "+a.page+".expect_popup() as "+a.opens+"_info:", "    "+p.do(a), a.opens+" = "+a.opens+"_info.value")
	case a.opens != "":
		return append(lines, "const "+a.opens+"Promise = "+a.page+".waitForEvent('popup');", await+p.do(a)+end, "const "+a.opens+" = await "+a.opens+"Promise;")
	}
	return append(lines, await+p.do(a)+end)
}

const (
	playwrightTS = `import { test, expect } from '@playwright/test';

test('session', async ({ page }) => {
%s});
`
	playwrightPy = `from playwright.sync_api import Page, sync_playwright


def test_session(page: Page) -> None:
%s

if __name__ == "__main__":
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch()
        test_session(browser.new_page())
        browser.close()
`
)

func playwrightScript(l Language, actions []action) string {
	p := playwright{python: l == PlaywrightPy}
	var lines []string
	for _, a := range actions {
		lines = append(lines, p.statements(a)...)
	}
	if !p.python {
		return preface("//", actions) + fmt.Sprintf(playwrightTS, indented("  ", lines))
	}
	imports := ""
	if len(secretNames(actions)) > 0 {
		imports = "import os\n\n"
	}
	return preface("#", actions) + imports + fmt.Sprintf(playwrightPy, indented("    ", body(lines)))
}

// body returns the lines of the body of a function of Python.
func body(lines []string) []string {
	for _, line := range lines {
		if !strings.HasPrefix(line, "#") {
			return lines
		}
	}
	return append(lines, "pass")
}

func indented(indent string, lines []string) string {
	var text strings.Builder
	for _, line := range lines {
		text.WriteString(indent + line + "\n")
	}
	return text.String()
}
